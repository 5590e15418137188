"""Trains one job: input, features, embedding engine, models, loop, export. Independent of the orchestrator.

In reading order: `ranker` is the model from keys to predictions; `loop.training` trains it on one rank; `launch` starts
the processes of a job, of which every rank runs `__main__`; `export` converts the trained state to a SavedModel.
"""

if __name__ != "sangam.trainer_module":
    raise ImportError(f"{__name__}: is sangam.trainer_module; under two names, modules would be loaded twice")
