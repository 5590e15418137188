"""What a run on this machine leaves: its summary, the report of it, an alert."""
