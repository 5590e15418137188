"""What every container of a compiled pipeline runs: TFX's own entry point, made fit for Kubeflow's backend.

Loads without TensorFlow: what it starts does not.
"""
