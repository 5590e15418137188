"""Logs of a team: found, read, checked row by row, and joined; shared by ingestion, the stream and the command line."""
