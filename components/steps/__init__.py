"""The steps of the pipeline that TFX lacks: a folder each, with a `component.py`."""
