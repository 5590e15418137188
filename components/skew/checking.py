"""Checks a day's requests against the tables of a spec."""

from collections.abc import Collection, Sequence
from typing import Any

from sangam.components.reports.skew import FeatureSkew
from sangam.components.skew.comparing import compare
from sangam.components.skew.recomputing import recompute
from sangam.components.skew.sampling import CANDIDATE, sampled
from sangam.schemas.contracts.request_log import REQUEST_ID
from sangam.schemas.derived.columns import columns, feature_columns, serving_columns
from sangam.schemas.derived.days import Day
from sangam.schemas.derived.sources import keys_of_log, sources_of, tables_of
from sangam.schemas.errors import UserError
from sangam.schemas.parts.columns import Column
from sangam.schemas.problems import listed
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.data import DayLogs, Logs


def check_features(
    inputs: Inputs, logs: Logs, redacted: Collection[str], requests: str, data_root: str, day: Day, num_requests: int
) -> FeatureSkew | None:
    """Compares the features that servers saw with those that a join gives, as of the requests' times.

    Args:
        inputs: features, tasks and keys of the spec.
        logs: the spec's logs, with tables among their sources.
        redacted: columns that the log does not have as they were.
        requests: folder of the log of requests, or its address.
        data_root: folder that the spec's patterns are relative to.
        day: day of the requests, UTC.
        num_requests: size of the sample.

    Returns:
        The comparison; None without requests.

    Raises:
        UserError: there are no tables, or requests lack their keys; a file cannot be read.
    """
    logs = _with_tables(logs)
    sources = [logs.sources[name] for name in sorted(logs.sources)]
    logged = [column for column in serving_columns(inputs) if column.name not in redacted]
    keys = {key.name: key for source in sources for key in keys_of_log(source)}
    _refuse_absent_keys(keys, logged)
    of_tables = {name for source in sources for name in source.columns}
    read = [*keys.values(), *(column for column in logged if column.name in of_tables and column.name not in keys)]
    if len(read) == len(keys):
        raise UserError(
            f"data.sources: no feature reads a column of a table (got {listed(sorted(of_tables))}); add one"
        )
    served = sampled(requests, day, num_requests, read)
    if not served.num_rows:
        return None
    by = (REQUEST_ID, CANDIDATE, *keys)
    offline = recompute(served, logs, columns(inputs), data_root, day, by)
    return compare(served, offline, by, _defaults(inputs))


def _with_tables(logs: Logs) -> DayLogs:
    """Returns the logs with the tables alone as sources."""
    tables = tables_of(logs)
    if not isinstance(logs, DayLogs) or not tables:
        got = listed(sorted(sources_of(logs))) if sources_of(logs) else "none"
        raise UserError(f"data.sources: has no table (got {got}); features are recomputed from sources of kind table")
    return logs.model_copy(update={"sources": tables})


def _refuse_absent_keys(keys: dict[str, Column], logged: Sequence[Column]) -> None:
    known = {column.name for column in logged}
    if absent := sorted(keys.keys() - known):
        raise UserError(
            f"data.sources: requests do not have the keys (got {listed(absent)}); they have {listed(sorted(known))}: "
            "let a feature read the keys, and do not redact them"
        )


def _defaults(inputs: Inputs) -> dict[str, Any]:
    """Returns the values that stand for a missing one, by column."""
    defaults: dict[str, Any] = {}
    for name, feature in inputs.features.items():
        value = getattr(feature, "missing", None)
        read = feature_columns(inputs, name)
        if value is None or value == "learned" or len(read) != 1 or read[0].is_list:
            continue
        match read[0].type:
            case "string":
                defaults[read[0].name] = str(value).encode()
            case "float":
                defaults[read[0].name] = float(value)
            case "int" if float(value).is_integer():
                defaults[read[0].name] = int(value)
            case _:
                pass
    return defaults
