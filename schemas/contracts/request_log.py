"""The log of requests that a server writes: names of columns and files.

`<folder>/YYYY-MM-DD/HH/<writer>-<number>.parquet` is sealed: it has a row for each request and does not
change. `<folder>/.open/<writer>-<number>.arrows` is being written. Dates and hours are those of the server's clock, in
UTC. No folder is a column of Hive: a model may read one of that name.

Each column that the model read is a list with a value for each candidate, or with one that stands for all of them.
The other columns are `OWN` and one of scores for each task.
"""

import datetime
import re
from collections.abc import Iterable

FORMAT = 1
FORMAT_KEY, EVENT_TIME_KEY, CANDIDATES_KEY = b"sangam.request_log", b"sangam.event_time", b"sangam.candidates"
"""Metadata of a Parquet file: the format, the ranker's column with the time of the event if the model does not read it,
and the number of candidates."""

KAFKA = "kafka://"
"""Begins the place of a log that is a topic."""
MESSAGE_FORMAT = "sangam_request_log"
"""Key of a message of Kafka with the format; the others are the columns of a row, times in seconds since 1970."""

REQUEST_ID_KEY = "x-request-id"
"""Header of REST, and key of gRPC's metadata, with the id of a request, as Envoy and other proxies set it."""
REQUEST_ID, AT = "request_id", "served_at"
VERSION, DELTA = "served_version", "served_delta"
NUM_CANDIDATES, CANDIDATE = "served_candidates", "served_candidate"
"""Number of candidates of the request, and the places of those that are logged; no places: all are."""
POSITION, PROPENSITY = "served_position", "served_propensity"
SCORE = "served_score_"
"""Begins the column with the scores of a task."""
SHADOW_VERSION, SHADOW_SCORE = "shadow_version", "shadow_score_"
"""The version that scored the request without answering it, and what begins the columns of its scores; null: none."""
OWN = (REQUEST_ID, AT, VERSION, DELTA, NUM_CANDIDATES, CANDIDATE, POSITION, PROPENSITY, SHADOW_VERSION)

POSITION_INPUT, PROPENSITY_INPUT = "log/position", "log/propensity"
"""Inputs of a request that the log alone takes: an input of a model has no `/`."""

OPEN_FOLDER, OPEN_SUFFIX, SEALED_SUFFIX = ".open", ".arrows", ".parquet"
SEALED = re.compile(r"(\d{4}-\d{2}-\d{2})/(\d{2})/[^/.][^/]*" + re.escape(SEALED_SUFFIX))
"""A sealed file below the folder."""


def hour_folder(at_s: float) -> str:
    """Returns the folder of the requests of an hour.

    Args:
        at_s: seconds since 1970.
    """
    return f"{datetime.datetime.fromtimestamp(at_s, datetime.UTC):%Y-%m-%d/%H}"


def taken(columns: Iterable[str]) -> list[str]:
    """Returns the columns of a model that have the name of one of the log's own: it cannot be logged."""
    return sorted(name for name in columns if name in OWN or name.startswith((SCORE, SHADOW_SCORE)))
