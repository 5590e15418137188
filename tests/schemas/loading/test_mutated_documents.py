"""Whatever is done to a spec, loading ends with a spec or with a SpecError that says where."""

import copy
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sangam.schemas.loading import load_spec
from sangam.schemas.problems import SpecError
from tests.schemas.sample_specs import changed, write

pytestmark = pytest.mark.slow

DOCUMENT = changed(
    {
        "event_time": "at",
        "tables.users.admission": {"kind": "count", "at_least": 2},
        "tables.users.capacity": {"rows": 9},
        "tables.tags.optimizer": {"kind": "ftrl", "learning_rate": 0.1},
        "training.checkpoint": {"keep": 3},
        "features.position": {"kind": "numeric", "normalize": "zscore", "at_serving": 1},
        "features.pair": {"kind": "cross", "columns": {"user_id": "string", "friend": "string"}, "table": "pairs"},
        "features.image": {"kind": "vector", "dim": 3},
        "features.posted": {"kind": "age", "since": "posted_at", "at": "at", "missing": 0},
        "features.hour": {"kind": "time", "column": "at", "part": "hour"},
        "features.seen": {"kind": "match", "column": "friend", "among": "tags", "type": "string"},
        "features.recent.encoder": {"kind": "din", "target": "pair"},
        "features.tags.weights": "tag_weights",
        "tables.pairs": {"dim": 4},
        "tasks.like.keep_negatives": 0.5,
        "tasks.stars.only_where": "like",
        "model.interaction": {"kind": "dcn_v2", "rank": 2},
    }
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["id", "binary"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
QUICK = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _load(path: Path) -> None:
    try:
        load_spec(path)
    except SpecError as error:
        assert error.problems
        assert all(problem.what and problem.allowed for problem in error.problems)


def _mutated(document: Any, value: Any, rng: random.Random) -> Any:
    """Returns the document with one thing replaced, taken away, renamed or added somewhere."""
    document = copy.deepcopy(document)
    places: list[tuple[Any, Any]] = []
    pending = [document]
    while pending:
        node = pending.pop()
        keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
        places += [(node, key) for key in keys]
        pending += [node[key] for key in keys]
    parent, key = rng.choice(places)
    match rng.randrange(4):
        case 0:
            parent[key] = value
        case 1:
            del parent[key]
        case 2 if isinstance(parent, dict):
            parent[str(value)] = parent.pop(key)
        case 2 | 3:
            other, other_key = rng.choice(places)
            parent[key] = copy.deepcopy(other[other_key])
    return document


@QUICK
@given(values=st.lists(ANYTHING, min_size=1, max_size=3), seed=st.integers(0, 2**32))
def test_a_mutated_document_is_a_spec_or_a_spec_error(tmp_path: Path, values: list[Any], seed: int) -> None:
    rng, document = random.Random(seed), DOCUMENT
    for value in values:
        document = _mutated(document, value, rng)
    _load(write(tmp_path / "spec.yaml", document))


@QUICK
@given(content=st.binary(max_size=80) | st.text(alphabet="a:{}[]&*!|>-#'\"\n \t%@?,.0", max_size=40).map(str.encode))
@pytest.mark.filterwarnings("ignore::ruamel.yaml.error.YAMLWarning")
def test_any_bytes_are_a_spec_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    with pytest.raises(SpecError):
        load_spec(path)


@QUICK
@given(seed=st.integers(0, 2**32), noise=st.text(alphabet="a:{}[]&*!|>-#'\"\n \t%@?,.0", min_size=1, max_size=3))
@pytest.mark.filterwarnings("ignore::ruamel.yaml.error.YAMLWarning")
def test_noise_in_the_text_is_a_spec_or_a_spec_error(repository: Path, tmp_path: Path, seed: int, noise: str) -> None:
    text = (repository / "pipelines" / "specs" / "short_video.yaml").read_text()
    rng = random.Random(seed)
    start = rng.randrange(len(text))
    path = tmp_path / "spec.yaml"
    path.write_text(text[:start] + noise + text[start + rng.randrange(5) :])
    _load(path)
