"""Supervises online training: its joiner, its ranks, full versions, and the change to a newly blessed model."""
