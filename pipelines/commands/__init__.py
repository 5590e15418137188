"""The commands of `sangam`, one file each: options, checks, one call, what is printed."""
