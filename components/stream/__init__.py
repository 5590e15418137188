"""Joins rows with the actions that follow them, as both arrive, and seals the examples in segments.

`arrivals` finds new files, `waiting` holds what is not complete yet, `emission` joins what is, by the functions of the
batch joiner, and `joiner` seals it together with the state to go on from.
"""
