"""Supervises online training: its joiner, its ranks, full versions, and the switch to a newly blessed model."""
