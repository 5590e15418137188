"""Code or data that go back, and versions that are deleted or rolled back: what a rerun pushes, by real TFX."""

import datetime
import shutil
from pathlib import Path
from typing import Any

import pytest

from sangam.components.registry.versions import versions, withdraw
from sangam.schemas.contracts.root import Root

pytestmark = pytest.mark.slow


class LiveRoot:
    """A root in which a pipeline runs whose trainer gives the model that it is told to."""

    def __init__(self, root: Path):
        self._root, self._num_runs = root, 0
        self.serving = root / "serving" / "tiny"

    def run(self, content: str) -> tuple[str, str]:
        """Runs the pipeline; returns the version that its pusher tells, and how the pusher came to it."""
        from tests.pipelines.local.sample_judged_pipeline import judged_run

        self._num_runs += 1
        judged_run(self._root, f"20240307T0000{self._num_runs:02d}-aaaaaaaa", failed="", content=content)
        return self._last_push()

    def live(self) -> str | None:
        """Returns what is in the version that servers take."""
        there = versions(self.serving)
        return (self.serving / there[-1] / "saved_model.pb").read_text() if there else None

    def baseline(self) -> str:
        """Returns what is in the model that a new one is compared with."""
        from sangam.components.registry.blessed import baseline_for, read_all

        uri = baseline_for("new", read_all(Root(str(self._root)).blessed("short_video")))
        return (Path(str(uri)) / "Format-Serving" / "saved_model.pb").read_text()

    def _last_push(self) -> tuple[str, str]:
        from ml_metadata import MetadataStore
        from ml_metadata.proto import metadata_store_pb2 as mlmd
        from tfx.orchestration import metadata

        config: Any = metadata.sqlite_metadata_connection_config(str(Root(str(self._root)).metadata))
        store = MetadataStore(config)
        (kind,) = [kind.name for kind in store.get_execution_types() if kind.name.endswith("Pusher")]
        last = max(store.get_executions_by_type(kind), key=lambda found: found.id)
        outputs = [
            event.artifact_id
            for event in store.get_events_by_execution_ids([last.id])
            if event.type in (mlmd.Event.OUTPUT, mlmd.Event.DECLARED_OUTPUT)
        ]
        (artifact,) = store.get_artifacts_by_id(outputs)
        return artifact.custom_properties["version"].string_value, mlmd.Execution.State.Name(last.last_known_state)


def test_a_model_that_another_took_the_place_of_is_served_again_after_its_rerun(tmp_path: Path) -> None:
    root = LiveRoot(tmp_path)
    assert root.run("a") == ("20240307001", "COMPLETE")
    assert root.run("a") == ("20240307001", "CACHED")
    assert root.run("b") == ("20240307002", "COMPLETE")
    assert root.run("a") == ("20240307003", "COMPLETE")
    assert (root.live(), root.baseline()) == ("a", "a")
    assert root.run("a") == ("20240307003", "CACHED")
    withdraw(root.serving, because="likes fell", now=datetime.datetime(2024, 3, 8, tzinfo=datetime.UTC))
    assert root.run("a") == ("20240307003", "CACHED")
    assert (root.live(), root.baseline()) == ("b", "b")


def test_a_version_that_was_deleted_by_hand_is_pushed_again_each_time(tmp_path: Path) -> None:
    root = LiveRoot(tmp_path)
    for _ in range(2):
        assert root.run("a") == ("20240307001", "COMPLETE")
        assert root.run("a") == ("20240307001", "CACHED")
        assert root.live() == "a"
        shutil.rmtree(root.serving / "20240307001")
