"""The page of a run, `report.html`: one file, offline, made from the outputs of the steps.

`collect` reads what the steps wrote, `figures` draws it, `render` puts both into the template. Nothing here imports
TensorFlow or TFX.
"""
