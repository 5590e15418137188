"""How one training job learns: input, features, embedding engine, models, loop, export. No orchestrator.

In reading order: `ranker` is the model from keys to predictions; `loop.training` tells how one rank trains it;
`launch` starts the processes of a job, of which every rank runs `__main__`; `export` turns the trained state into a
SavedModel.
"""
