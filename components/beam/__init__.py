"""How steps with Beam run on an engine: their jobs, the time limit, the reason of a failure, the worker pool."""
