"""A daily run on one machine: `sangam schedule run`, and the text of the timers that start it."""
