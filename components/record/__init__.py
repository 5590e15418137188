"""The record of a run: what it is (`run`), how its end is worded (`outcome`), where it lies (`store`, `journal`).

Loads without TensorFlow and TFX: a run that could not even import them gets its record, too.
"""
