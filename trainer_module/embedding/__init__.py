"""The embedding engine: one physical table per dimension and rank, rows owned by exactly one rank."""
