"""StatisticsGen; TFX's own code, whose version its key must know."""
