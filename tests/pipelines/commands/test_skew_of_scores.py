"""`sangam skew --models` finds scores that differ though the features do not."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from sangam.components.request_log.served import Served
from sangam.components.server.model import LoadedModel
from sangam.pipelines.cli import app
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.spec.serving import RequestLog
from tests.components.request_log.sample_requests import write as write_log
from tests.components.server.logged_models import EVENT_TIME, put_logged
from tests.components.server.sample_models import SmallRanker, candidates
from tests.components.skew.sample_tables import DATA
from tests.errors import mentions
from tests.schemas.sample_specs import changed, write

pytestmark = pytest.mark.slow

VERSION, DAY, MIDNIGHT = 20240228001, "2024-02-29", 1_709_164_800
PRICES = {"p0": 0.5, "p1": 1.5, "p2": 2.5}
_OF_POSTS = {"keys": {"post id": {"type": "string", "column": "id"}}, "columns": {"price": {}}}
CHANGES = {
    "data": DATA | {"sources": {"items": DATA["sources"]["items"] | _OF_POSTS}},
    "features": {
        "user": {"kind": "id", "type": "string", "table": "users"},
        "post": {"kind": "id", "column": "post id", "type": "string", "table": "tags"},
        "price": {"kind": "numeric", "normalize": "zscore", "missing": 0},
        "topics": {"kind": "ids", "type": "int", "table": "topics", "combiner": "mean"},
    },
    "tables": {"users": {"dim": 8}, "tags": {"dim": 4}, "topics": {"dim": 4}},
    "tasks": {"like": {"kind": "binary"}, "watch": {"kind": "binary"}},
    "gates": [{"task": "like", "metric": "auc", "at_least": 0.6}],
    "event_time": EVENT_TIME,
    "evaluation": {},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version, a table of prices, and the logs of a server that is right and of one whose scores are changed."""
    root = tmp_path_factory.mktemp("skew")
    SmallRanker(3.0).save(root / "model")
    put_logged(root / "model", root / "versions", VERSION, RequestLog(share=1.0))
    (root / "items" / DAY).mkdir(parents=True)
    rows = [{"id": post, "updated": MIDNIGHT, "price": price} for post, price in PRICES.items()]
    pq.write_table(pa.Table.from_pylist(rows), root / "items" / DAY / "part.parquet")
    model = LoadedModel(root / "versions" / str(VERSION), VERSION)
    assert model.logged
    for name, wrong in (("right", 0.0), ("wrong", 0.25)):
        inputs = candidates(3) | {"price": np.array(list(PRICES.values()), np.float32)}
        scores = model.run(model.signature("rank"), inputs)
        scores["like"][1] += wrong
        write_log(root / name, model.logged, [Served(model.logged, "r0", MIDNIGHT + 60.5, None, inputs, 3, scores)])
    return root


def skew(root: Path, log: str) -> Result:
    spec = write(root / "spec.yaml", changed(CHANGES))
    arguments = ["--data", str(root), "--log", str(root / log), "--date", DAY, "--models", str(root / "versions")]
    return CliRunner().invoke(app, ["skew", str(spec), *arguments], env={"COLUMNS": "250"})


def test_scores_differ_though_features_do_not(root: Path) -> None:
    right = skew(root, "right")
    assert right.exit_code == ExitCode.DONE, right.output
    wrong = skew(root, "wrong")
    assert wrong.exit_code == ExitCode.REJECTED, wrong.output
    assert mentions(wrong.output, "no column ... 3 candidates")
    assert mentions(wrong.output, "like ... 1 ... 3 ... 6.75 ... 6.5 ... 0.25")
    assert mentions(wrong.output, f"0.10% ... like ... request_id r0, candidate 1, served_version {VERSION}")
