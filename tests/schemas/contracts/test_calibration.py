"""A calibration rises, and has an inverse."""

import json
from typing import Any

import pytest

from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.spec.tasks import BinaryTask

RISING = Calibration(kind="isotonic", examples=9, positives=3, logits=(-3.0, 2.0), calibrated=(-2.0, 1.0), slope=0.5)


def test_its_inverse_takes_each_point_back() -> None:
    inverse = RISING.inverse()
    assert (inverse.logits, inverse.calibrated, inverse.slope) == ((-2.0, 1.0), (-3.0, 2.0), 2.0)
    assert inverse.inverse() == RISING
    assert Calibration.model_validate_json(RISING.model_dump_json()) == RISING


@pytest.mark.parametrize(
    "changes",
    [
        {"calibrated": (1.0, 1.0)},
        {"calibrated": (1.0, 0.0)},
        {"calibrated": (1.0,)},
        {"logits": (2.0, -3.0)},
        {"logits": (), "calibrated": ()},
        {"slope": 0.0},
    ],
)
def test_one_that_does_not_rise_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes)) if "slope" in changes else "calibrat|logits"):
        Calibration.model_validate({**RISING.model_dump(), **changes})


def test_a_spec_without_one_does_not_write_it() -> None:
    assert "calibration" not in json.loads(BinaryTask(kind="binary").model_dump_json())
    calibrated = BinaryTask.model_validate({"kind": "binary", "calibration": {"kind": "platt"}})
    assert json.loads(calibrated.model_dump_json())["calibration"] == {"kind": "platt"}
