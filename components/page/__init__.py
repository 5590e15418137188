"""The page of a run, `report.html`: one file, offline, made from the outputs of the steps.

`collect` reads what the steps wrote, `figures` draws it, `render` puts both into the template. But for the
artifact's type, nothing here imports TensorFlow or TFX.
"""
