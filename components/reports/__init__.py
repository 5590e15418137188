"""Reports of steps, for later steps and for people: JSON beside an artifact, one module each."""
