"""The Python API, thin over what the commands use. `sangam/__init__.py` gives its names; docs/python.md shows them."""
