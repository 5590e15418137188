"""The job of online training: which bases it takes."""

import dataclasses
import datetime
from pathlib import Path
from typing import Any

import pytest

from sangam.components.registry.blessed import record
from sangam.pipelines.online.base import OnlineBase, bases
from sangam.pipelines.online.job import job_in_shadow, job_of
from sangam.pipelines.online.request import OnlineRequest
from sangam.pipelines.online.shadow import ShadowTraining
from sangam.schemas.contracts.export import DESCRIPTION_FILE
from sangam.schemas.contracts.history import FILE_NAME, FOLDER, History
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec.online import Online
from sangam.schemas.spec.release import DirectoryPush
from tests.components.registry.sample_blessings import blessing
from tests.errors import mentions, tells
from tests.paths import SPECS
from tests.schemas.sample_exports import sample_description

pytestmark = pytest.mark.slow


def request_with(folder: Path, **training: Any) -> OnlineRequest:
    """Returns a request whose base was trained with some settings of its own."""
    described = sample_description()
    ranker = described.ranker.model_copy(update={"training": described.ranker.training.model_copy(update=training)})
    version = folder / "20240307001"
    (version / DESCRIPTION_FILE).parent.mkdir(parents=True)
    (version / DESCRIPTION_FILE).write_text(described.model_copy(update={"ranker": ranker}).text())
    base = OnlineBase(model=blessing("model"), version=version, learned_until=None)
    spec = load_spec(SPECS / "short_video.yaml")
    return OnlineRequest(spec=spec, settings=Online(), root=Root(str(folder)), base=base, source=folder, follows=True)


def test_a_base_of_an_incremental_run_may_have_epochs_of_its_own(tmp_path: Path) -> None:
    request = request_with(tmp_path, epochs=7)
    job = job_of(request, request.base)
    assert job.stream is not None
    assert job.stream.lineage == "20240307001"
    assert job.ranker.training.epochs == request.spec.training.epochs


def test_a_base_that_learns_otherwise_is_refused(tmp_path: Path) -> None:
    request = request_with(tmp_path, batch_size_per_rank=7)
    with pytest.raises(UserError) as caught:
        job_of(request, request.base)
    assert tells(str(caught.value), "--base", "version 20240307001 has another model")


def test_rows_that_the_tables_of_the_base_count_are_not_learned(tmp_path: Path) -> None:
    root, graph = Root(str(tmp_path)), tmp_path / "graph"
    pushed = "serving/small/20240309001"
    fields = {"days": ("2024-03-06", "2024-03-07"), "checkpoint_uri": "checkpoint", "pushed": pushed}
    record(root.blessed("small"), blessing("model", **fields, transform_graph_uri=str(graph)))

    def ends_before() -> str:
        live = bases(root, "small").live
        assert live is not None
        assert live.learned_until is not None
        return f"{datetime.datetime.fromtimestamp(live.learned_until + 1, datetime.UTC):%Y-%m-%d %X}"

    assert ends_before() == "2024-03-08 00:00:00"
    (graph / FOLDER).mkdir(parents=True)
    (graph / FOLDER / FILE_NAME).write_text(History(as_of="2024-03-09", tables=()).model_dump_json())
    assert ends_before() == "2024-03-09 00:00:00"


def test_a_version_in_the_shadow_is_trained_by_the_job_that_goes_on_once_it_is_live(tmp_path: Path) -> None:
    request = request_with(tmp_path)
    request = dataclasses.replace(request, settings=Online.model_validate({"lag": {"skip_to_s": 600}}))
    live = job_of(request, request.base)
    (tmp_path / "shadow").mkdir()
    request.base.version.rename(tmp_path / "shadow" / request.base.lineage)
    waiting = job_in_shadow(request, request.base)
    assert live.stream is not None
    assert waiting.stream is not None
    assert (waiting.digest, waiting.checkpoint_dir) == (live.digest, live.checkpoint_dir)
    assert (waiting.stream.versions, waiting.stream.lineage) == (str(tmp_path), "20240307001")
    assert waiting.stream.settings.lag == "wait"
    assert waiting.stream.settings.sync.full_every > 10**6 > live.stream.settings.sync.full_every


def test_a_version_of_another_model_in_the_shadow_is_told_once_and_left_alone(tmp_path: Path) -> None:
    request, said = request_with(tmp_path, batch_size_per_rank=7), list[str]()
    push = DirectoryPush(kind="directory", path="serving", after="shadow")
    spec = request.spec.model_copy(update={"push": push, "online": Online()})
    shadow = ShadowTraining(dataclasses.replace(request, spec=spec), request.base, said.append)
    for _ in range(2):
        shadow.follow(request.base)
    assert (shadow.lineage, shadow.job, shadow.check()) == (request.base.lineage, None, "")
    [told] = said
    assert mentions(told, "version 20240307001 ... is not trained ... has another model")
    not_wanted = ShadowTraining(request, request.base, said.append)
    not_wanted.follow(request.base)
    assert (not_wanted.lineage, not_wanted.has_changed(), len(said)) == ("", False, 1)
