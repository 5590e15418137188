"""GPUs are hidden from all processes but the ranks."""

import pytest

from sangam.schemas.host.gpus import hide, show
from sangam.trainer_module.launch.children import environment_of_all


@pytest.mark.parametrize("before", [{}, {"CUDA_VISIBLE_DEVICES": ""}, {"CUDA_VISIBLE_DEVICES": "2,3"}])
def test_a_rank_sees_what_was_visible_before_however_often_it_was_hidden(before: dict[str, str]) -> None:
    environ = dict(before)
    hide(environ)
    hide(environ)
    assert environ["CUDA_VISIBLE_DEVICES"] == "-1"
    show(environ)
    assert environ == before
    show(environ)
    assert environ == before


def test_the_processes_of_a_job_start_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SANGAM_VISIBLE_GPUS", raising=False)  # A step of another test may have hidden them here.
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    environment = environment_of_all()
    assert environment["CUDA_VISIBLE_DEVICES"] == "-1"
    show(environment)
    assert environment["CUDA_VISIBLE_DEVICES"] == "1"
