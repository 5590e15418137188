"""TFX's StatisticsGen, with the versions of libraries in its cache key."""
