"""The page of a run, `report.html`: one file, offline, made from the outputs of the steps.

`collect` reads the outputs, `figures` draws them, `render` fills the template. Except for the artifact's type, nothing
here imports TensorFlow or TFX.
"""
