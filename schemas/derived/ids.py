"""Tables whose rows belong to ids of the logs, and the columns with these ids."""

from collections.abc import Mapping

from sangam.schemas.derived.columns import feature_columns, is_bias
from sangam.schemas.parts.columns import IdType
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.events import EventId
from sangam.schemas.spec.features import IdFeature, IdsFeature, SequenceFeature


def id_columns(inputs: Inputs) -> dict[str, dict[str, IdType]]:
    """Returns the columns of ids by table, with their types; tables of pairs, buckets and times have none."""
    found: dict[str, dict[str, IdType]] = {}
    for name, feature in inputs.features.items():
        if isinstance(feature, IdFeature | IdsFeature | SequenceFeature) and not is_bias(feature):
            found.setdefault(feature.table, {})[feature_columns(inputs, name)[0].name] = feature.type
        if isinstance(feature, SequenceFeature):
            for part, each in feature.beside.items():
                if isinstance(each, EventId):
                    found.setdefault(each.table, {})[each.column or part] = each.type
    return dict(sorted(found.items()))


def type_of_ids(columns: Mapping[str, IdType]) -> IdType:
    """Returns the type of a table's ids: int where all its columns have integers, otherwise string."""
    return "int" if set(columns.values()) == {"int"} else "string"


def declared_ids(inputs: Inputs, table: str) -> list[str]:
    """Returns the ids that the spec itself gives to rows without one, as texts."""
    features = (each for each in inputs.features.values() if isinstance(each, IdFeature) and each.table == table)
    given = (value for each in features for value in (each.missing, each.at_serving) if value is not None)
    return list(dict.fromkeys(map(str, given)))
