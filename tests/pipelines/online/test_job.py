"""The job of online training: which bases it takes."""

from pathlib import Path
from typing import Any

import pytest

from sangam.pipelines.online.base import OnlineBase
from sangam.pipelines.online.job import job_of
from sangam.pipelines.online.request import OnlineRequest
from sangam.schemas.contracts.export import DESCRIPTION_FILE
from sangam.schemas.contracts.root import Root
from sangam.schemas.errors import UserError
from sangam.schemas.loading import load_spec
from sangam.schemas.spec.online import Online
from tests.components.registry.sample_blessings import blessing
from tests.errors import tells
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
