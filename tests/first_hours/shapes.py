"""Small logs as other teams have them, each written by the tools that teams use; none was made for this product."""

import gzip
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from numpy.typing import NDArray

ROWS, DAYS = 2000, 20
_ITEMS, _USERS = 60, 100


def _random(shape: str) -> np.random.Generator:
    return np.random.default_rng(list(shape.encode()))


def _times(rng: np.random.Generator, first: str = "2024-05-01") -> pd.DatetimeIndex:
    seconds = np.sort(rng.integers(0, DAYS * 86_400, ROWS))
    return pd.Timestamp(first) + pd.to_timedelta(seconds, unit="s")


def _liked(rng: np.random.Generator, items: NDArray[Any]) -> NDArray[Any]:
    """Returns outcomes that depend on the item."""
    return rng.random(ROWS) < 1 / (1 + np.exp(-2 * np.sin(items) + 0.5))


def bank(folder: Path) -> Path:
    """A bank's campaign, exported by a spreadsheet: semicolons, decimal commas, dates of a country, yes and no."""
    rng = _random("bank")
    age, job = rng.integers(18, 80, ROWS), rng.choice(["admin.", "blue-collar", "retired", "services"], ROWS)
    is_client = rng.random(ROWS) < 1 / (1 + np.exp(-0.08 * (age - 45) - np.where(job == "retired", 1.5, -0.5)))
    balance = [f"{each:,.2f}".translate(str.maketrans(",.", ".,")) for each in rng.normal(1300, 2500, ROWS)]
    frame = pd.DataFrame(
        {
            "date": _times(rng, "2023-01-20").strftime("%d/%m/%Y"),
            "age": age,
            "job": np.where(np.arange(ROWS) % 50, job, "NULL"),
            "balance": balance,
            "in default": rng.choice(["yes", "no"], ROWS, p=[0.1, 0.9]),
            "y": np.where(is_client, "yes", "no"),
        }
    )
    path = folder / "bank.csv"
    frame.to_csv(path, sep=";", index=False, encoding="utf-8-sig", lineterminator="\r\n")
    return path


def competition(folder: Path) -> Path:
    """A competition's folder: rows to learn from with their index, rows to predict, and a sample of an answer."""
    rng = _random("competition")
    fare, sex = rng.gamma(2, 20, ROWS).round(2), rng.choice(["male", "female"], ROWS)
    frame = pd.DataFrame(
        {
            "Id": range(ROWS),
            "Class": rng.integers(1, 4, ROWS),
            "Sex": sex,
            "Fare": fare,
            "Cabin": rng.choice(["A", "B", None], ROWS),
        }
    )
    frame["Survived"] = (rng.random(ROWS) < 1 / (1 + np.exp(-np.where(sex == "female", 2, -2)))).astype(int)
    frame[:1600].to_csv(folder / "train.csv")
    frame[1600:].drop(columns="Survived").to_csv(folder / "test.csv")
    frame[1600:][["Id", "Survived"]].to_csv(folder / "sample_submission.csv", index=False)
    return folder


def ratings(folder: Path) -> Path:
    """MovieLens' ratings: no header, `::` between cells."""
    rng = _random("ratings")
    users, items = rng.integers(1, _USERS, ROWS), rng.integers(1, _ITEMS, ROWS)
    stars = np.clip(np.round(3 + np.sin(users) + np.cos(items) + rng.normal(0, 0.5, ROWS)), 1, 5).astype(int)
    seconds = _times(rng).astype("int64") // 10**9
    lines = ("::".join(map(str, each)) for each in zip(users, items, stars, seconds, strict=True))
    (folder / "ratings.dat").write_text("\n".join(lines) + "\n")
    return folder


def clicks(folder: Path) -> Path:
    """A web log in CSV: UUIDs, times as texts, true and false, quoted line breaks, gzip."""
    rng = _random("clicks")
    items = rng.integers(0, _ITEMS, ROWS)
    frame = pd.DataFrame(
        {
            "request_id": [str(uuid.UUID(int=number * 7919)) for number in range(ROWS)],
            "timestamp": _times(rng).strftime("%Y-%m-%d %H:%M:%S"),
            "user": [str(uuid.UUID(int=int(each))) for each in rng.integers(0, _USERS, ROWS)],
            "item_id": items,
            "title": [f'a "big"\nthing {each % 7}' for each in items],
            "is_new": rng.random(ROWS) < 0.5,
            "clicked": _liked(rng, items),
        }
    )
    path = folder / "clicks.csv.gz"
    frame.to_csv(path, index=False)
    return path


def events(folder: Path) -> Path:
    """Events of an application as JSON Lines: nested objects, lists, ISO times with a zone, keys that come late."""
    rng = _random("events")
    items, users, times = rng.integers(0, _ITEMS, ROWS), rng.integers(0, _USERS, ROWS), _times(rng)
    bought = _liked(rng, items)
    with gzip.open(folder / "events.json.gz", "wt") as file:
        for number, (item, user) in enumerate(zip(items, users, strict=True)):
            event: dict[str, Any] = {
                "at": f"{times[number].isoformat()}Z",
                "user": {"id": f"u{user}", "country": ["IN", "US"][user % 2]},
                "items": [{"id": int(item)}, {"id": int(item + 1)}],
                "tags": [f"t{item % 5}", f"t{item % 3}"],
                "bought": bool(bought[number]),
            }
            if number > ROWS // 2:
                event["price"] = float(item)
            file.write(json.dumps(event) + "\n")
    return folder


def frame_with_index(folder: Path) -> Path:
    """A DataFrame as pandas writes it: an index, booleans, nanoseconds with a zone, a category, a missing label."""
    rng = _random("frame")
    items = rng.integers(0, _ITEMS, ROWS)
    label = pd.array(_liked(rng, items), "boolean")
    label[::97] = pd.NA
    frame = pd.DataFrame(
        {
            "when": _times(rng).tz_localize("Europe/London"),
            "user": pd.Categorical([f"u{each}" for each in rng.integers(0, _USERS, ROWS)]),
            "item": items.astype("uint64"),
            "price": rng.gamma(2, 5, ROWS).astype("float32"),
            "is_new": rng.random(ROWS) < 0.5,
            "liked": label,
        },
        index=np.arange(ROWS) * 2 + 1,
    )
    path = folder / "frame.parquet"
    frame.to_parquet(path)
    return path


def hive(folder: Path) -> Path:
    """Folders of a warehouse: a column in their names, columns in another order and of a wider type later."""
    rng = _random("hive")
    items = rng.integers(0, _ITEMS, ROWS)
    frame = pd.DataFrame(
        {
            "ts": _times(rng).astype("int64") // 10**6,
            "user_id": [f"u{each}" for each in rng.integers(0, _USERS, ROWS)],
            "item_id": items,
            "quantity": rng.integers(1, 5, ROWS),
            "clicked": _liked(rng, items).astype("int8"),
        }
    )
    for number, country in enumerate(("IN", "US")):
        part = folder / f"country={country}"
        part.mkdir()
        of_country = frame[number::2].astype({"quantity": "int32" if number else "int64"})
        of_country[of_country.columns[:: -1 if number else 1]].to_parquet(part / "part-0.parquet", index=False)
    return folder


def prices(folder: Path) -> Path:
    """A number to predict, in a file of tabs with missing cells of several notations, without a time."""
    rng = _random("prices")
    area, place = rng.integers(30, 200, ROWS), rng.choice(["north", "south", "west"], ROWS)
    price = 1000 * area + np.where(place == "west", 50_000, 0) + rng.normal(0, 5000, ROWS)
    frame = pd.DataFrame(
        {"area": area.astype(object), "place": place, "rooms": rng.integers(1, 8, ROWS), "price": price.round()}
    )
    frame.loc[::40, "area"] = "NA"
    frame.loc[::60, "rooms"] = np.nan
    path = folder / "prices.tsv"
    frame.to_csv(path, sep="\t", index=False, na_rep="\\N")
    return path


def delta(folder: Path) -> Path:
    """A table of Delta Lake, partitioned, appended to, and with rows deleted whose files are still there."""
    rng = _random("delta")
    items, times = rng.integers(0, _ITEMS, ROWS), _times(rng)
    frame = pd.DataFrame(
        {
            "shown": times.tz_localize("UTC"),
            "day": times.strftime("%Y-%m-%d"),
            "user_id": [f"u{each}" for each in rng.integers(0, _USERS, ROWS)],
            "item_id": items,
            "clicked": _liked(rng, items),
        }
    )
    path = folder / "clicks"
    for part in (frame[: ROWS // 2], frame[ROWS // 2 :]):
        write_deltalake(path, pa.Table.from_pandas(part), mode="append", partition_by=["day"])
    DeltaTable(path).delete("item_id = 7")
    return path


def _chosen(rng: np.random.Generator, users: NDArray[Any]) -> NDArray[Any]:
    """Returns items that depend on the user's taste."""
    of_taste = users % 4 * (_ITEMS // 4) + rng.integers(0, _ITEMS // 4, ROWS)
    return np.where(rng.random(ROWS) < 0.2, rng.integers(0, _ITEMS, ROWS), of_taste)


def purchases(folder: Path) -> Path:
    """A shop's orders: each row is a purchase, and none says what was not bought."""
    rng = _random("purchases")
    users = rng.integers(0, _USERS, ROWS)
    items = _chosen(rng, users)
    frame = pd.DataFrame(
        {
            "order_id": range(ROWS),
            "customer_id": [f"c{each}" for each in users],
            "product_id": [f"p{each}" for each in items],
            "price": np.round(5 + items * 1.37, 2),
            "category": np.array(["a", "b", "c"])[items % 3],
            "quantity": rng.integers(1, 4, ROWS),
            "ordered_at": _times(rng).strftime("%Y-%m-%d %H:%M:%S"),
        }
    )
    path = folder / "orders.csv"
    frame.to_csv(path, index=False)
    return path


def plays(folder: Path) -> Path:
    """Plays of songs, like Last.fm's: ISO times, a user and an artist, names with tabs' neighbors."""
    rng = _random("plays")
    users = rng.integers(0, _USERS, ROWS)
    items = _chosen(rng, users)
    frame = pd.DataFrame(
        {
            "userid": [f"user_{each:06d}" for each in users],
            "timestamp": _times(rng, "2009-05-01").strftime("%Y-%m-%dT%H:%M:%SZ"),
            "artist_id": [str(uuid.UUID(int=int(each))) for each in items],
            "artist_name": [f"The {each}'s; Band" for each in items],
        }
    )
    path = folder / "plays.tsv"
    frame.to_csv(path, sep="\t", index=False)
    return path


SHAPES: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "bank": (bank, ("y",)),
    "competition": (competition, ()),
    "ratings": (ratings, ("rating",)),
    "clicks": (clicks, ()),
    "events": (events, ("bought",)),
    "frame": (frame_with_index, ("liked",)),
    "hive": (hive, ("clicked",)),
    "prices": (prices, ("price",)),
    "delta": (delta, ("clicked",)),
    "purchases": (purchases, ()),
    "plays": (plays, ()),
}
"""Writers of logs, and the labels that `sangam init` is told."""
