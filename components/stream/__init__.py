"""Joins arriving rows with the actions that follow them, and seals the examples in segments.

`arrivals` lists new files, or `topics` writes messages to files; `reading` reads them, `emission` joins complete rows
with the functions of the batch joiner, and `joiner` seals the examples together with the state to resume from.
"""
