"""Lists, reads, checks and joins a team's logs; shared by ingestion, the stream and the command line."""
