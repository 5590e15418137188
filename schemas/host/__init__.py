"""The machine below the plain data: processes, memory, files, waits and hashes."""
