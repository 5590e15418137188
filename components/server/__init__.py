"""Serves a folder of model versions over the gRPC and REST interfaces of TensorFlow Serving.

Run it with `python -m sangam.components.server DIR`. Start reading at process.py, and at predictor.py for the path of a
request.
"""
