"""A trained model as a Python object and in batches: scores, vectors of ids, importance of columns."""
