"""Parts are called once before a run: sound ones pass, mistakes are told with file and line; and workers find them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sangam.components.trials import try_parts
from sangam.schemas.checks.parts import outside_parts
from sangam.schemas.errors import UserError
from sangam.testing import check_part
from tests.components.sample_parts import FBeta, Length
from tests.errors import mentions
from tests.paths import REPOSITORY
from tests.schemas.sample_specs import loaded

NEGATIVES = {"label": "like", "item": "friend", "user": "user_id", "item_columns": ["tags"]}
DRAWN = {"tasks.stars.missing_label": "mask"}
PARTS = {"parts": ["tests.components.sample_parts", "tests.components.wrong_parts"]}


def test_sound_parts_pass(tmp_path: Path) -> None:
    spec = loaded(
        tmp_path,
        PARTS
        | {"evaluation.metrics": {"f_half": {"kind": "f_beta", "beta": 0.5}, "again": {"kind": "surprise"}}}
        | {"evaluation.slices": [[{"kind": "initial", "column": "user_id"}]]}
        | {"data.negatives": NEGATIVES | {"draw": {"kind": "tempered", "power": 1.5}}}
        | {"alerts": {"format": {"kind": "chat", "room": "ml"}}}
        | DRAWN,
    )
    assert len(list(outside_parts(spec))) == 5
    try_parts(spec)


def test_the_checks_for_others_tests_try_a_part_that_is_not_the_trainers() -> None:
    assert check_part(FBeta(kind="f_beta", beta=2.0)).keys() == {"trial"}
    assert check_part(Length(kind="length", column="tags", many=2)).keys() == {"trial"}


@pytest.mark.parametrize(
    ("role", "way", "told"),
    [
        ("metric", "raise", "IndexError: ... (got this from `sums` of metric 'wrong')"),
        ("metric", "flat", "`sums` of metric 'wrong' returned the shape [4]; ... [4, S]"),
        ("metric", "infinite", "returned a number that is not finite (got -inf)"),
        ("metric", "texts", "`sums` of metric 'wrong' returned str1024; ... float64"),
        ("metric", "one value", "`value` of metric 'wrong' of sums [2, 2] has the shape []; it returns [2]"),
        ("metric", "ranks", "`sums` of metric 'wrong' returned other values ... beside other examples"),
        ("slice", "rows", "`texts` of slice 'wrong' returned other values ... beside other examples"),
        ("slice", "short", "`texts` of slice 'wrong' returned the shape [1]; it returns [3]"),
        ("slice", "numbers", "returned what is no text (got 0)"),
        ("negative_sampler", "negative", "returned a weight below 0 (got -20)"),
        ("negative_sampler", "random", "other weights for the same items"),
        ("negative_sampler", "short", "`weights` of negative_sampler 'wrong' returned the shape [2]; it returns [3]"),
        ("alert_target", "raise", "KeyError"),
    ],
)
def test_a_mistake_is_told_with_its_file_and_line(tmp_path: Path, role: str, way: str, told: str) -> None:
    wrong = {"kind": "wrong", "way": way}
    changes: dict[str, dict[str, Any]] = {
        "metric": {"evaluation.metrics": {"bad": wrong}},
        "slice": {"evaluation.slices": [[wrong]]},
        "negative_sampler": {"data.negatives": NEGATIVES | {"draw": wrong}} | DRAWN,
        "alert_target": {"alerts": {"format": wrong}},
    }
    with pytest.raises(UserError) as caught:
        try_parts(loaded(tmp_path, PARTS | changes[role]))
    assert mentions(str(caught.value), "wrong_parts.py: ... " + told), str(caught.value)


def test_a_worker_that_is_sent_a_part_imports_its_module_also_from_beside_a_spec(tmp_path: Path) -> None:
    made = tmp_path / "part"
    (tmp_path / "beside.py").write_text(
        "from typing import Literal\n"
        "from sangam.parts import NegativeSampler\n"
        "class Even(NegativeSampler):\n"
        "    kind: Literal['even']\n"
        "    scale: float = 1.0\n"
        "    def weights(self, items_I, positives_I):\n"
        "        return 0 * positives_I + self.scale\n"
    )
    pickled = (
        "import pickle, sys; from sangam.schemas.parts.importing import import_part;"
        "part = import_part('beside').Even(kind='even', scale=2.5);"
        "open(sys.argv[1], 'wb').write(pickle.dumps({'draw': part}))"
    )
    read = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))['draw'])"
    environ = {"SANGAM_PARTS": str(tmp_path), "PYTHONPATH": str(REPOSITORY), "PATH": ""}
    outs = [
        subprocess.run(
            [sys.executable, "-c", code, str(made)], env=environ, check=True, capture_output=True, text=True
        ).stdout
        for code in (pickled, read)
    ]
    assert outs == ["", "kind='even' scale=2.5\n"]
