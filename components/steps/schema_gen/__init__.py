"""The schema that statistics are validated against: derived from the spec, never from the data."""
