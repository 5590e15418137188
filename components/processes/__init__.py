"""Processes that components and pipelines start, and how they are stopped; a training job starts its own."""
