"""The steps that TFX lacks."""
