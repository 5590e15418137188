"""The command of every container of a compiled pipeline: it adapts TFX's own entry point to Kubeflow's backend.

Loads without TensorFlow; the process that it starts loads it.
"""
