"""Statistics of the examples, collected once for each day, in the form of TensorFlow Data Validation."""
