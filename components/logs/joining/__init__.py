"""Joins sources to the rows of the main log by keys and time.

`keys`, `as_of`, `actions` and `bucket` are pure functions on arrays in memory, for any joiner. `splitting`, `pipeline`
and `joined_rows` apply them to files: both sides are cut into buckets by a hash of their keys, each bucket is joined by
itself, and the results return to the order of the main log.
"""
