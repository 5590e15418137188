"""Parts of a ranker, by role and kind: what every part declares, and the registry of those that a process knows.

`sangam.parts` is the documented interface for parts of others (docs/parts.md); the kinds of the product register alike.
"""
