"""Importance of the columns of a frame, with labels and without."""

import numpy as np
import pandas as pd
import pytest

from sangam.components.model.model import Model
from sangam.schemas.errors import UserError
from tests.components.model.committed import frame
from tests.errors import place_and_value

pytestmark = pytest.mark.slow


def _rows(count: int) -> pd.DataFrame:
    return pd.concat([frame()] * count, ignore_index=True)


def test_without_labels_it_is_the_mean_change_of_the_score(model: Model) -> None:
    rows = _rows(4).assign(user="ann")
    found = model.explain(rows, seed=3).set_index("column")
    assert set(found["measure"]) == {"mean_abs_change"}
    assert found.loc["user", "importance"] == 0.0  # One value cannot be shuffled.
    order = np.random.default_rng(3).permutation(len(rows))
    shuffled = model.score(rows.assign(age=rows["age"].to_numpy()[order]))["like"]
    expected = np.abs(shuffled - model.score(rows)["like"]).mean()
    np.testing.assert_allclose(found.loc["age", "importance"], expected, rtol=1e-5)
    assert found["importance"].is_monotonic_decreasing


def test_with_labels_it_is_the_decline_of_the_auc(model: Model) -> None:
    rows = _rows(20)
    # A label that the score tells exactly: the AUC is 1, and shuffling what the score depends on lowers it.
    scores = model.score(rows)["like"]
    found = model.explain(rows.assign(like=(scores > scores.median()).astype(int))).set_index("column")
    assert set(found["measure"]) == {"auc"}
    assert (found["importance"] > 0.05).all()
    assert (found["lower"] <= found["importance"]).all()
    assert (found["importance"] <= found["upper"]).all()


def test_no_rows_are_refused(model: Model) -> None:
    with pytest.raises(UserError, match=place_and_value("data", "(got none)")):
        model.explain(frame().head(0))
