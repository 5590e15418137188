"""Public logs with users, items and time, which packages ship: fetched, and written as Parquet by day."""
