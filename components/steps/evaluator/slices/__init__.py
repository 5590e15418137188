"""Turns batches of serialized examples into scored blocks of one slice each."""
