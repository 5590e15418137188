"""From the columns of the logs to model inputs: numbers, ids, lists and times, as TensorFlow graphs."""
