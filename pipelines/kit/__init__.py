"""The oracle kit for parts of others: `sangam.testing` is its door."""
