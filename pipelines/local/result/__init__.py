"""The results of a local run: its summary, its report, an alert."""
