"""The data gate: statistics that do not fit the schema stop the run."""
