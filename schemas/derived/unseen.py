"""The features whose ids training reads as unseen."""

from sangam.schemas.spec import RankerSpec


def declared_rates(spec: RankerSpec) -> dict[str, float]:
    """Returns the shares that the tables declare, by feature; those of `auto` are left out."""
    rates = {name: table.unseen for key, table in spec.tables.items() for name in spec.features_of(key)}
    return {name: rate for name, rate in rates.items() if not isinstance(rate, str) and rate > 0}


def measured_features(spec: RankerSpec) -> tuple[str, ...]:
    """Returns the features of tables with `unseen: auto`."""
    return tuple(name for key, table in spec.tables.items() if table.unseen == "auto" for name in spec.features_of(key))
