"""What is measured: a table of docs/quality.md is a data set, its rows are specs that differ in one thing."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from ruamel.yaml import YAML

from bench.quality import ids, one_change
from bench.quality.changes import merged
from schemas.loading import load_spec
from schemas.spec import Spec
from schemas.spec.training import Order

SPECS = Path(__file__).parent / "specs"
SHARED_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
WORK = Path("runs") / "quality"


@dataclass(frozen=True)
class Table:
    """One data set.

    Attributes:
        name: as the markers of docs/quality.md have it.
        spec: file in specs/.
        data: folder that the spec's patterns are relative to.
        date: of the run; not looked at for logs without dates.
        changes: by row: what is put in the place of members of the spec.
        goals: AUC by task that is wanted; a row below it is marked.
        seeds: how many.
    """

    name: str
    spec: str
    data: Path
    changes: Callable[[], Mapping[str, Mapping[str, Any]]]
    date: str = ""
    goals: Mapping[str, float] = field(default_factory=dict)
    seeds: int = 3

    def specs(self) -> dict[str, Spec]:
        """Returns the spec of each row."""
        spec = load_spec(SPECS / self.spec)
        plain = spec.model_dump(mode="json", exclude_unset=True)
        return {
            row: Spec.model_validate_json(json.dumps(merged(plain, change))) for row, change in self.changes().items()
        }


def _architectures() -> dict[str, dict[str, Any]]:
    models = YAML(typ="safe").load((SPECS / "architectures.yaml").read_text())
    rows: dict[str, dict[str, Any]] = {row: {"model": model} for row, model in models.items()}
    tables = load_spec(SPECS / "census_all_features.yaml").tables
    rows["dcn_v2 + ple, rows of 16, never_married counts 2"] = rows["dcn_v2 + ple"] | {
        "tables": {table: {"dim": 16} for table in tables},
        "tasks": {"never_married": {"weight": 2.0}},
        "training": {"embedding_optimizer": {"learning_rate": 0.03}},
    }
    return rows


def _one(row: str) -> Callable[[], Mapping[str, Mapping[str, Any]]]:
    return lambda: {row: {}}


def _online_retail() -> dict[str, dict[str, Any]]:
    return {
        "DCN-v2 + MMoE": {},
        "the same, shuffled": {"training": {"order": "shuffled", "shuffle_buffer": _ALL_ROWS}},
        "without the cross of user and item": {"features": {"pair": None}, "tables": {"pairs": None}},
    }


_ALL_ROWS = 500_000


def _hash_trick() -> dict[str, dict[str, Any]]:
    """Every row of the table: the same memory, spent on rows of ids or on rows of buckets."""
    counts = ids.logs(WORK / "logs")
    tables = {"users": "user_id", "posts": "post_id", "authors": "author_id"}
    rows: dict[str, dict[str, Any]] = {}
    for share in ids.SHARES:
        fits = "every id has a row" if share == 1 else f"rows for 1 in {share} ids"
        capacity = {"rows": 0, "evict": "least_frequent"}
        kept = {table: {"capacity": capacity | {"rows": counts[column] // share}} for table, column in tables.items()}
        rows[f"collisionless, {fits}"] = {"tables": kept if share > 1 else {}}
        feature = {name: {"column": ids.hashed(column, share), "type": "int"} for name, column in _ID_FEATURES.items()}
        rows[f"hashed, {fits}"] = {"features": feature}
    return rows


_ID_FEATURES = {"user": "user_id", "post": "post_id", "author": "author_id", "history": "recent_posts"}


def _noise() -> dict[str, dict[str, Any]]:
    ids.logs(WORK / "logs")
    return {
        "as declared": {},
        "and a number without signal": {"features": {"noise": {"kind": "numeric"}}},
        "and an id without signal": {
            "features": {"noise_id": {"kind": "id", "type": "int", "table": "noise"}},
            "tables": {"noise": {"dim": 16}},
        },
        "and an id without signal in a table of 4, l2 0.001": {
            "features": {"noise_id": {"kind": "id", "type": "int", "table": "noise"}},
            "tables": {"noise": {"dim": 4, "l2": 0.001}},
        },
    }


def _orders(**data: int) -> Callable[[], Mapping[str, Mapping[str, Any]]]:
    return lambda: {order: {"training": {"order": order}, "data": data} for order in get_args(Order)}


def _orders_of_the_feed() -> Mapping[str, Mapping[str, Any]]:
    ids.logs(WORK / "logs")
    return _orders(train_days=5)()


def _one_change_tables() -> Iterator[Table]:
    """Yields the tables of plain specs, on validation data."""
    census = SHARED_DATA / "census_income"
    splits = {"train": "train/*.parquet", "eval": "validation/*.parquet"}
    october = {"train_days": 304, "eval_days": 31}
    of_census, feed = WORK / "census_validation", WORK / "logs"

    def table(name: str, data: Path, make: Callable[[], Any] = lambda: None, date: str = "", **of_data: Any) -> Table:
        spec = f"plain_{name}.yaml"
        # Half of the plain specs' epochs for Census: what is worth it shows before all of it is learned.
        fixed = {"data": of_data, "training": {"epochs": 4}} if name.startswith("census") else {"data": of_data}
        changes = one_change.rows_of(SPECS / spec, make, fixed)
        return Table(name=f"one_change_{name}", spec=spec, data=data, changes=changes, date=date)

    yield table(
        "census_all_features",
        of_census,
        lambda: one_change.census_validation(census / "all_features", of_census),
    )
    yield table("census_nominal", census / "nominal", splits=splits)
    yield table("online_retail", SHARED_DATA / "online_retail" / "lines", date="2011-10-31", **october)
    yield table("feed", feed, lambda: ids.logs(feed), date="2024-03-06", train_days=5)


TABLES = (
    Table(
        name="online_retail",
        spec="online_retail.yaml",
        data=SHARED_DATA / "online_retail" / "lines",
        date="2011-12-09",
        changes=_online_retail,
        goals={"reorder": 0.9314, "bulk": 0.9379, "high_value": 0.9048},
    ),
    Table(
        name="census_nominal",
        spec="census_nominal.yaml",
        data=SHARED_DATA / "census_income" / "nominal",
        changes=_one("DCN-v2 + PLE"),
        goals={"income": 0.9221, "never_married": 0.9909},
    ),
    Table(
        name="census_all_features",
        spec="census_all_features.yaml",
        data=SHARED_DATA / "census_income" / "all_features",
        changes=_architectures,
        goals={"income": 0.9499, "never_married": 0.9947},
    ),
    Table(name="hash_trick", spec="short_video.yaml", data=WORK / "logs", date="2024-03-07", changes=_hash_trick),
    Table(name="noise", spec="short_video.yaml", data=WORK / "logs", date="2024-03-07", changes=_noise, seeds=8),
    # Each date is before those on which anything else is measured.
    Table(
        name="order_retail_september",
        spec="../../../pipelines/specs/online_retail.yaml",
        data=SHARED_DATA / "online_retail" / "lines",
        date="2011-09-30",
        changes=_orders(train_days=90, eval_days=30),
    ),
    Table(
        name="order_retail_may",
        spec="../../../pipelines/specs/online_retail.yaml",
        data=SHARED_DATA / "online_retail" / "lines",
        date="2011-05-31",
        changes=_orders(train_days=151, eval_days=31),
    ),
    Table(
        name="order_feed",
        spec="../../../pipelines/specs/short_video.yaml",
        data=WORK / "logs",
        date="2024-03-06",
        changes=_orders_of_the_feed,
    ),
    *_one_change_tables(),
)
