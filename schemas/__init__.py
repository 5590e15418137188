"""What is declared: the typed, frozen, closed spec of a ranker, and what follows from it as plain data.

Nothing in this package imports TensorFlow, so that a spec is checked in well under two seconds.
"""
