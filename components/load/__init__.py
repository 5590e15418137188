"""An open-loop load generator for servers of the interfaces of TensorFlow Serving."""
