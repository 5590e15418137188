"""The record of a run: its data (`run`), its outcome in words (`outcome`), and its files (`store`, `journal`).

Loads without TensorFlow and TFX: a run that fails to import them gets a record, too.
"""
