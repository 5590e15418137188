"""Files that one process writes and another reads: one typed definition for both sides."""
