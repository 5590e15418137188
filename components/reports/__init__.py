"""What a step writes for later steps and for people: JSON beside its artifact, one module each."""
