"""A small world for measuring: examples of users, sessions and tabs, two models, and Beam to measure them."""

import json
import math
from pathlib import Path

import apache_beam as beam
import numpy as np
import tensorflow as tf

from sangam.components.steps.evaluator.metrics.measured import BASELINE, CANDIDATE, SliceResult, read_measured
from sangam.components.steps.evaluator.models import loaded
from sangam.components.steps.evaluator.models.candidate import features_with_known_ids
from sangam.components.steps.evaluator.models.examples import sources
from sangam.components.steps.evaluator.models.scoring import Models
from sangam.components.steps.evaluator.plan import plan_of
from sangam.components.steps.evaluator.slices.measuring import measure as measured_by
from sangam.schemas.contracts.calibration import Calibration
from sangam.schemas.contracts.export import BLOCKS, known_ids_of
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.release import Evaluation, Gate
from tests.beam_args import BEAM_ARGS
from tests.components.steps.evaluator.sample_evaluation import examples_artifact, one_value_each

NUM_ROWS = 3_000
INPUTS = Inputs.model_validate_json(
    json.dumps(
        {
            "parts": ["tests.components.sample_parts"],
            "features": {
                "x": {"kind": "numeric", "normalize": "zscore"},
                "tab": {"kind": "id", "type": "string", "table": "t", "column": "tab_name"},
                "language": {"kind": "id", "type": "string", "table": "t"},
                "user": {"kind": "id", "type": "int", "table": "t", "column": "user_id"},
            },
            "keys": {"session": {"type": "string"}},
            "tasks": {
                "like": {"kind": "binary"},
                "broken": {"kind": "binary", "label": "like"},
                "watch": {"kind": "regression", "label": "watched_s"},
                "buy": {
                    "kind": "binary",
                    "label": "bought",
                    "only_where": "like",
                    "missing_label": "mask",
                    "example_weight": "worth",
                },
                "dwell": {"kind": "watch_time", "label": "dwelt_s", "missing_label": "mask"},
                "never": {"kind": "binary", "label": "like", "only_where": "never_shown"},
            },
        }
    )
)
EVALUATION = Evaluation.model_validate_json(
    json.dumps(
        {
            "metrics": {
                "f_half": {"kind": "f_beta", "beta": 0.5},
                "surprise": {"kind": "surprise"},
                "brier": {"kind": "mean_squared"},
            },
            "slices": [["tab"], ["language", "tab"], [{"kind": "initial", "column": "tab_name"}]],
            "group": {"by": "user", "weigh": "positives"},
            "list": {"by": "session", "k": [3]},
            "confidence": {"replicates": 20, "by": "user"},
            "min_slice_examples": 400,
        }
    )
)
CALIBRATIONS = {
    "like": Calibration(
        kind="isotonic", examples=9, positives=3, logits=(-3.0, -1.0, 2.0), calibrated=(-2.0, -1.5, 1.0)
    ),
    "buy": Calibration(kind="platt", examples=9, positives=3, calibrated=(0.5,), slope=2.0),
}
"""Said to be those of the candidate."""
GATES = (Gate(task="like", metric="auc", slice={"language": "hi"}, at_least=0.5),)


def rows() -> dict[str, np.ndarray]:
    """Returns columns; one in ten rows has no tab, one in five no `bought`, half no `dwelt_s`, a tenth no `worth`."""
    random, masks, worths = (np.random.default_rng(seed) for seed in (7, 8, 9))
    x = random.normal(size=NUM_ROWS).astype(np.float32)
    tabs = np.array([b"home", "profil é".encode(), b"search", b"home", b"home"], object)
    tab = tabs[random.integers(0, 5, NUM_ROWS)]
    tab[random.random(NUM_ROWS) < 0.1] = None
    return {
        "x": x,
        "noise": random.normal(size=NUM_ROWS).astype(np.float32),
        "tab_name": tab,
        "language": np.array([b"hi", b"en"])[random.integers(0, 2, NUM_ROWS)],
        "user_id": random.integers(0, 200, NUM_ROWS),
        "session": np.array([b"s%d" % (row // 7) for row in range(NUM_ROWS)]),
        "like": (random.random(NUM_ROWS) < 1 / (1 + np.exp(1 - 2 * x))).astype(np.int64),
        "watched_s": (3 * x + random.normal(size=NUM_ROWS)).astype(np.float32),
        "bought": _without(masks, 0.2, (masks.random(NUM_ROWS) < 1 / (1 + np.exp(-x))).astype(np.int64)),
        "dwelt_s": _without(masks, 0.5, masks.exponential(30, NUM_ROWS).astype(np.float32)),
        "worth": _without(worths, 0.1, worths.gamma(1, 3, NUM_ROWS).astype(np.float32)),
        "never_shown": np.zeros(NUM_ROWS, np.int64),
    }


def _without(random: np.random.Generator, share: float, values: np.ndarray) -> np.ndarray:
    """Returns values of which a share is missing: None."""
    found = values.astype(object)
    found[:] = list(values)
    found[random.random(len(values)) < share] = None
    return found


def scores(columns: dict[str, np.ndarray], noise: float) -> dict[str, np.ndarray]:
    """Returns what `export(noise=noise)` predicts, as float32."""
    seen = columns["x"] + np.float32(noise) * columns["noise"]
    return {"like": 1 / (1 + np.exp(1 - 2 * seen)), "watch": 3 * seen}


def is_broken(columns: dict[str, np.ndarray]) -> np.ndarray:
    """Says for which examples the score of task `broken` is no number."""
    return columns["x"] > 1.5


def is_new_user(columns: dict[str, np.ndarray]) -> np.ndarray:
    """Says which examples' users `export(known_ids=True)` has no row for."""
    return columns["user_id"] % 5 == 0


def export(uri: Path, *, noise: float, known_ids: bool) -> None:
    """Exports a model that scores by `x + noise * column noise`."""
    module = tf.Module()
    module.noise = tf.Variable(noise)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="blocks")])
    def score(blocks: tf.Tensor) -> dict[str, tf.Tensor]:
        parsed = one_value_each(blocks, {"x": tf.float32, "noise": tf.float32, "user_id": tf.int64})
        seen = parsed["x"] + module.noise * parsed["noise"]
        like = tf.sigmoid(2 * seen - 1)
        broken = tf.where(parsed["x"] > 1.5, math.nan, like)
        answer = {"like": like, "broken": broken, "watch": 3 * seen, "buy": like, "dwell": tf.exp(seen), "never": like}
        if known_ids:
            users = parsed["user_id"][:, 0]
            answer |= {known_ids_of("user"): users % 5 != 0, known_ids_of("language"): users >= 0}
        return answer

    tf.saved_model.save(module, str(uri / "Format-Serving"), signatures={BLOCKS: score})


def measure(folder: Path, *, examples: Path, model: Path, baseline: Path | None) -> dict[str, SliceResult]:
    """Runs Beam as the evaluator's executor does, and reads what it wrote."""
    tasks = ["like", "watch"] if baseline else []
    plan = plan_of(
        inputs=INPUTS,
        evaluation=EVALUATION,
        gates=GATES,
        baseline_tasks=tasks,
        calibrations=CALIBRATIONS if baseline else {},
    )
    paths = {CANDIDATE: str(model / "Format-Serving")} | (
        {BASELINE: str(baseline / "Format-Serving")} if baseline else {}
    )
    knows_ids = CANDIDATE if features_with_known_ids(paths[CANDIDATE]) else None
    with beam.Pipeline(argv=list(BEAM_ARGS)) as pipeline:
        measured_by(
            pipeline,
            sources=sources(examples_artifact(examples), "eval"),
            models=Models(paths, knows_ids),
            plan=plan,
            num_parts=3,
            folder=str(folder),
        )
    loaded.release_all()
    return read_measured(str(folder), INPUTS, EVALUATION)
