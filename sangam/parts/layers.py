"""Layers for parts of your own: they know of dropout and ensembles, and run on the native path. They load TensorFlow.

Each takes the weights that the function of the same name in `sangam.parts` declares: `Dense("gate", relu=False)` those
of `dense("gate", ...)`, `Mlp` of `mlp`, `ParallelMlps` of `side_by_side`, `Towers` of `towers`, `Heads` of `heads`.
"""

from sangam.trainer_module.dense.layers import Dense, Heads, Mlp, ParallelMlps, Towers, mixtures

__all__ = ["Dense", "Heads", "Mlp", "ParallelMlps", "Towers", "mixtures"]
