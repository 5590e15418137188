"""Statistics of the examples, collected once a day, in the form of TensorFlow Data Validation."""
