from pathlib import Path

import pytest

from tests.errors import mentions
from tests.trainer_module.sample_job import declared

pytestmark = pytest.mark.slow
pytest.importorskip("tensorflow")


@pytest.mark.parametrize(
    ("half", "chosen"), [(0.5, "bfloat16"), (0.94, "bfloat16"), (0.96, "float32"), (1.0, "float32"), (1.4, "float32")]
)
def test_auto_takes_bfloat16_where_it_is_clearly_faster_and_says_so(half: float, chosen: str) -> None:
    from sangam.trainer_module.loop.precision import decide

    found = decide("auto", {"float32": 1e-3, "bfloat16": half * 1e-3})
    assert found.chosen == chosen
    assert mentions(found.note, f"auto chose {chosen} ... {half:.3g} ms in bfloat16 ... 1 ms in float32")


def test_a_declared_bfloat16_warns_where_it_is_slower_and_is_silent_where_not() -> None:
    from sangam.trainer_module.loop.precision import decide

    slower, faster = (decide("bfloat16", {"float32": 2e-3, "bfloat16": half}) for half in (3e-3, 1e-3))
    assert (slower.chosen, faster.chosen) == ("bfloat16", "bfloat16")
    assert mentions(slower.note, "bfloat16 ... slower ... 3 ms in bfloat16 ... 2 ms in float32")
    assert faster.note == ""


def test_float32_is_taken_without_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    from sangam.trainer_module.loop import precision

    monkeypatch.setattr(precision, "_measured_s", lambda declared: pytest.fail("measured"))
    assert precision.settle(declared()) == (declared(dense_precision="float32"), precision.Precision("float32"))


def test_auto_measures_both_on_this_machine_and_leaves_the_rest_of_the_declaration() -> None:
    from sangam.trainer_module import collectives
    from sangam.trainer_module.loop import precision

    collectives.start()
    settled, found = precision.settle(declared(dense_precision="auto"))
    assert found.chosen in ("float32", "bfloat16")
    assert settled == declared(dense_precision=found.chosen)


@pytest.mark.long
def test_an_export_computes_in_the_precision_of_the_ranks(served_world: Path) -> None:
    from sangam.trainer_module.ranker import with_precision
    from sangam.trainer_module.serving.writing import served_ranker
    from tests.trainer_module.serving import sample_training as world

    job = world.job_of(served_world, served_world, with_precision(world.declared(), "auto"))
    served = served_ranker(job, job.ranker.export)
    assert served._ranker.spec == with_precision(job.ranker, "float32")
    served.release()
