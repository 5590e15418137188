"""Trainings whose processes are killed at random times, against the same trainings left alone."""
