"""Which negatives are kept."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sangam.components.logs.rows.conversion import convert
from sangam.components.logs.rows.sampling import Sampling, sampled, sampling_of, uniform
from sangam.schemas.derived.columns import columns
from sangam.schemas.spec import Inputs

KEPT = b"sangam: negatives that are kept"


def inputs(**task: Any) -> Inputs:
    return Inputs.model_validate_json(
        json.dumps(
            {
                "features": {"x": {"kind": "numeric", "normalize": "zscore"}},
                "tasks": {"click": {"kind": "binary", "label": "clicked"} | task, "like": {"kind": "binary"}},
            }
        )
    )


def batch(declared: Inputs, **arrays: Any) -> pa.RecordBatch:
    read = columns(declared)
    raw = pa.RecordBatch.from_arrays([pa.array(arrays[column.name]) for column in read], [c.name for c in read])
    return convert(raw, read, "file").batch


def test_nothing_is_sampled_where_nothing_is_declared_or_outside_the_train_split() -> None:
    assert sampling_of(inputs(), "train") is None
    declared = inputs(keep_negatives=0.25, only_where="shown")
    assert sampling_of(declared, "train") == Sampling("click", "clicked", "shown", None, 0.25)
    assert sampling_of(declared, "validation") is None
    assert sampling_of(declared, "eval") is None


def test_all_but_negatives_stay_and_of_these_the_declared_share() -> None:
    declared = inputs(keep_negatives=0.1, missing_label="mask")
    random = np.random.default_rng(1)
    n = 20_000
    clicked = random.choice(np.array([0, 1, None]), n, p=[0.8, 0.1, 0.1])
    rows = batch(declared, clicked=clicked, like=random.integers(0, 2, n), x=np.arange(n))
    sampling = sampling_of(declared, "train")
    assert sampling
    found = sampled(rows, np.arange(n), sampling, "day/part-0")
    negatives = int((clicked == 0).sum())
    assert found.num_negatives == negatives
    kept = found.batch.column(found.batch.schema.get_field_index("clicked")).to_pylist()
    assert (kept.count([1]), kept.count(None)) == ((clicked == 1).sum(), (clicked == None).sum())  # noqa: E711
    assert kept.count([0]) == negatives - found.num_left_out
    # Within four standard deviations of the binomial distribution.
    assert kept.count([0]) == pytest.approx(0.1 * negatives, abs=4 * np.sqrt(negatives * 0.09))


def test_examples_that_take_no_part_in_the_task_are_no_negatives() -> None:
    declared = inputs(keep_negatives=1e-9, only_where="shown", example_weight="worth")
    marks = {"shown": [1, 0, None, 1, 1], "worth": [2.0, 1.0, 1.0, 1.0, None]}
    rows = batch(declared, clicked=[0, 0, 0, 1, 0], like=[0] * 5, x=np.arange(5.0), **marks)
    sampling = sampling_of(declared, "train")
    assert sampling
    found = sampled(rows, np.arange(5), sampling, "file")
    assert found.batch.to_pydict()["x"] == [[1.0], [2.0], [3.0], [4.0]]
    assert (found.num_negatives, found.num_left_out) == (1, 1)


def test_a_row_is_kept_by_its_file_and_place_however_it_is_cut_into_batches() -> None:
    whole = uniform("a", np.arange(1_000), KEPT)
    assert np.array_equal(
        whole, np.concatenate([uniform("a", np.arange(400), KEPT), uniform("a", np.arange(400, 1_000), KEPT)])
    )
    # Evenly spread, and another file's rows have other numbers.
    assert np.allclose(np.quantile(whole, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.05)
    assert abs(np.corrcoef(whole, uniform("b", np.arange(1_000), KEPT))[0, 1]) < 0.1
    # Written down: a change would keep other rows of the same files.
    assert uniform("2024-03-01/part-0.parquet", np.arange(2), KEPT).tolist() == [0.9183914049200798, 0.7713339893554475]
