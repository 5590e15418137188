"""Lists, awaits, resolves and digests the files that a run reads."""
