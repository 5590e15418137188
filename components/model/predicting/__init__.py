"""Scores of the rows of files: a part of predictions for each file, whole or not at all."""
