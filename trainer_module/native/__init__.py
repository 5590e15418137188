"""Custom C++ operations that replace TensorFlow operations with high overhead per step."""
