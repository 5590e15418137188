"""From batches of serialized examples to scored blocks, one slice each."""
