"""Which metrics TFMA computes, from blocks of scored examples to values with intervals."""
