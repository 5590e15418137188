"""Online training whose programs and broker are killed at random times, and the books that must balance at its end."""
