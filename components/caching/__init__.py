"""What goes into the cache key of a step beside its inputs: a digest of its code, and what its driver adds."""
