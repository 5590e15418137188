"""MovieLens 100K: who rated which film how, and when; its terms forbid passing it on, so none of it lies here."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from bench.quality.sets.days import calendar, codes, recent_before, rows_before, write_days
from bench.quality.sets.packages import members

_PLACE = "recbole/dataset_example/ml-100k/ml-100k"
_RECENT = 20


def make(folder: Path, cache: Path) -> None:
    """Writes the days."""
    ratings, films, users = members("recbole", tuple(f"{_PLACE}.{part}" for part in ("inter", "item", "user")), cache)
    write_days(rows(ratings, films, users), folder)


def rows(ratings: bytes, films: bytes, users: bytes) -> pa.Table:
    """Returns a row for each rating, in the order of time, from RecBole's texts."""
    joined = _texts(ratings).join(_texts(films), "item_id").join(_texts(users), "user_id")
    joined = joined.append_column("event_time", pc.cast(pc.cast(joined["timestamp"], pa.float64()), pa.int64()))
    joined = joined.sort_by([(name, "ascending") for name in ("event_time", "user_id", "item_id")])
    time_s_N = joined["event_time"].to_numpy()
    users_N, films_N = codes(joined["user_id"]), codes(joined["item_id"])
    stars = pc.cast(joined["rating"], pa.int64())
    recent = recent_before(joined["user_id"].to_pylist(), joined["item_id"].to_pylist(), time_s_N, _RECENT)
    return pa.table(
        {
            "event_time": joined["event_time"],
            "user_id": joined["user_id"],
            "movie_id": joined["item_id"],
            "age": pc.cast(joined["age"], pa.int64()),
            "gender": joined["gender"],
            "occupation": joined["occupation"],
            "zip_code": joined["zip_code"],
            "release_year": _year(joined["release_year"]),
            "genres": pc.split_pattern(pc.fill_null(joined["class"], ""), " "),
            **calendar(time_s_N),
            "user_recent_movies": pa.array(recent, pa.list_(pa.string())),
            "user_ratings_before": rows_before(users_N, time_s_N),
            "movie_ratings_before": rows_before(films_N, time_s_N),
            "liked": pc.cast(pc.greater_equal(stars, 4), pa.int64()),
            "loved": pc.cast(pc.equal(stars, 5), pa.int64()),
        }
    )


def _year(texts: pa.ChunkedArray) -> pa.Array:
    return pa.array([int(text) if (text or "").isdigit() else None for text in texts.to_pylist()], pa.int64())


def _texts(content: bytes) -> pa.Table:
    """Returns the columns as texts; RecBole's headers say `name:type`."""
    names = [each.split(":")[0] for each in content.split(b"\n", 1)[0].decode().rstrip("\r").split("\t")]
    return pa.csv.read_csv(
        pa.BufferReader(content),
        pa.csv.ReadOptions(column_names=names, skip_rows=1),
        pa.csv.ParseOptions(delimiter="\t", quote_char=False),
        pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
        ),
    )
