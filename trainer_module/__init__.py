"""How one training job learns: input, features, embedding engine, models, loop, export. No orchestrator.

The story, in reading order: `launch` starts the processes of a job; every rank runs `__main__`; `ranker` is the
model from keys to predictions; `loop` trains it; `export` turns the trained state into a SavedModel.
"""
