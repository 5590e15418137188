"""The tables of docs/quality.md: each is a data set, its rows are specs that differ in one thing."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bench.quality import ids
from bench.quality.changes import merged
from sangam.schemas.loading import load_spec
from sangam.schemas.spec import Spec

SPECS = Path(__file__).parent / "specs"
SHARED_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
WORK = Path("runs") / "quality"


@dataclass(frozen=True)
class Table:
    """One data set.

    Attributes:
        name: its marker in docs/quality.md.
        spec: file in specs/.
        data: folder that the spec's patterns are relative to.
        changes: members of the spec that each row replaces.
        date: date of the run; ignored for logs without dates.
        goals: wanted AUC by task; rows below it are marked.
        seeds: number of trainings of each row.
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
)
