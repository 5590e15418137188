"""The typed, frozen, closed spec of a ranker, and the plain data derived from it.

Nothing here imports TensorFlow, so that a spec is checked in well under two seconds.
"""
