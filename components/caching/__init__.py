"""Parts of a step's cache key besides its inputs: a digest of its code, and properties that its driver adds."""
