"""The kit finds what each of its checks is for; parts that hold all promises are checked in examples/parts."""

from pathlib import Path

import pytest

from sangam.schemas.errors import UserError
from sangam.schemas.parts.kinds import Part
from sangam.testing import check_part
from tests.pipelines.kit import broken_parts as broken

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    broken.CALLS.clear()


@pytest.mark.parametrize(
    ("part", "check"),
    [
        (broken.Random(kind="broken_random"), "determinism"),
        (broken.Remembers(kind="broken_remembers"), "determinism"),
        (broken.WrongSlope(kind="broken_slope"), "gradient"),
        (broken.LosesRows(kind="broken_rows"), "gradient: by embeddings"),
        (broken.OfTheBatch(kind="broken_batch"), "ranks"),
        (broken.NoLabels(kind="broken_empty"), "finite: (one example|no values)"),
        (broken.Coarse(kind="broken_coarse"), "bfloat16"),
        (broken.Forgets(kind="broken_forgets", learning_rate=0.1), "resume"),
        pytest.param(
            broken.Otherwise(kind="broken_otherwise", dropout=0.1), "export: .* differ", marks=pytest.mark.long
        ),
        pytest.param(broken.OneTarget(kind="broken_target"), "export: scores of candidates", marks=pytest.mark.long),
    ],
    ids=lambda value: value.kind if isinstance(value, Part) else "",
)
def test_a_broken_promise_is_told_with_the_class(part: Part, check: str) -> None:
    place = f"{Path(broken.__file__).name}:\\d+: {check}"
    with pytest.raises(AssertionError, match=rf"{place}.*{part.role} '{part.kind}'"):
        check_part(part)


def test_an_operation_that_a_server_lacks_is_refused() -> None:
    with pytest.raises(UserError, match="EagerPyFunc"):
        check_part(broken.CallsPython(kind="broken_python"))
