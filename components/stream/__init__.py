"""Joins rows with the actions that follow them, as both arrive, and seals the examples in segments.

`arrivals` finds new files, or `topics` makes files of messages; `reading` reads them, `emission` joins what is
complete, by the functions of the batch joiner, and `joiner` seals it together with the state to resume from.
"""
