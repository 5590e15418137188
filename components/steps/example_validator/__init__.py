"""The data gate: it stops the run if statistics do not fit the schema, or on drift."""
