"""The steps that TFX lacks."""

if __name__ != "sangam.components":
    raise ImportError(f"{__name__}: is sangam.components; under two names, modules would be loaded twice")
