"""The typed, frozen, closed spec of a ranker, and the plain data derived from it.

Nothing here imports TensorFlow, so that a spec is checked in well under two seconds.
"""

if __name__ != "sangam.schemas":
    raise ImportError(f"{__name__}: is sangam.schemas; under two names, modules would be loaded twice")
