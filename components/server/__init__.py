"""Serves a folder of model versions over the gRPC and REST interfaces of TensorFlow Serving.

`python -m components.server DIR`; who reads it starts at process.py, and at predictor.py for what a request goes
through.
"""
