"""What online training cannot do is refused."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.loading import load_spec
from sangam.schemas.problems import SpecError
from tests.errors import tells
from tests.schemas.sample_specs import changed, write

_GUARD = {"task": "like", "metric": "auc", "at_least": 0.6}


def _online(guard: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"event_time": "at", "online": {"guards": [{**_GUARD, **(guard or {})}]}}


def test_a_section_that_fits_is_read(tmp_path: Path) -> None:
    spec = load_spec(write(tmp_path / "spec.yaml", changed(_online())))
    assert spec.online is not None
    assert spec.online.guards[0].minutes == 60


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        ({"online": {}}, "online", "(got no event_time)"),
        (_online() | {"training.sync": {"kind": "async"}}, "online", "kind async"),
        (_online() | {"training.average": {"kind": "last"}}, "training.average.kind", "(got last)"),
        (_online() | {"push": {"kind": "none"}}, "online", "push of kind none"),
        (_online() | {"push": {"kind": "directory", "path": "s3://b/c"}}, "online", "push.path s3://b/c"),
        ({"event_time": "at", "online": {"shadow": False}}, "online.shadow", "(got false) ... push.after"),
        (_online({"task": "stars"}), "online.guards[0].task", "(got 'stars') ... like"),
        (_online({"task": "none"}), "online.guards[0].task", "(got 'none')"),
        (
            {"event_time": "at", "online": {"guards": [{"task": "like", "metric": "auc"}]}},
            "online.guards[0]",
            "at_least",
        ),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, changes: dict[str, Any], place: str, value: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path / "spec.yaml", changed(changes)))
    assert tells(str(caught.value), place, value), str(caught.value)
