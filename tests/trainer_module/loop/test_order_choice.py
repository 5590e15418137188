"""Which order of days a short training in both finds better, and when that counts."""

import json
from pathlib import Path

import pytest

from tests.trainer_module.sample_job import declared, job, write_days

pytestmark = pytest.mark.slow
pytest.importorskip("tensorflow")

DAYS = tuple(f"2024-03-0{day}" for day in range(1, 10))


@pytest.mark.parametrize(
    ("num_examples", "days", "of_a_day"),
    [(0, 7, 4), (96_000, 12, 4), (1_600_000, 12, 4), (3_200_000, 7, 4), (6_400_000, 7, 2)],
)
def test_short_trainings_have_an_eighth_of_the_examples_up_to_200_000_but_of_seven_days_some(
    num_examples: int, days: int, of_a_day: int
) -> None:
    from sangam.trainer_module.loop.order_choice import newest

    files = {f"2024-{month:02}-{day:02}": list("abcd") for month in range(1, 5) for day in range(1, 25)}
    found = newest(files, num_examples)
    assert list(found) == list(files)[-days:]
    assert {len(of_day) for of_day in found.values()} == {of_a_day}


@pytest.mark.parametrize(
    ("gains", "order"),
    [
        ([0.011, 0.009, 0.013, 0.011], "shuffled"),
        ([0.003, 0.003, 0.003, 0.003], "shuffled_within_day"),
        ([0.03, -0.02, 0.03, -0.02], "shuffled_within_day"),
        ([-0.01, -0.01, -0.01, -0.01], "shuffled_within_day"),
        ([float("nan"), 0.01, 0.01, 0.01], "shuffled"),
        ([float("nan")] * 3 + [0.01], "shuffled_within_day"),
    ],
)
def test_shuffled_is_chosen_if_its_gain_is_more_than_chance(gains: list[float], order: str) -> None:
    from sangam.trainer_module.loop.order_choice import decide

    chosen = decide([0.7] * len(gains), [0.7 + gain for gain in gains], num_days=9)
    assert chosen.order == order
    assert f"auto chose {order}" in chosen.note


def test_a_training_tells_its_choice_and_a_resumed_one_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sangam.trainer_module import collectives
    from sangam.trainer_module.loop import order_choice, start
    from sangam.trainer_module.loop.checkpointing import Checkpointer
    from sangam.trainer_module.loop.training import train

    files = write_days(tmp_path / "data", DAYS)
    ranker = declared(order="auto", shuffle_buffer=64, checkpoint={"every_steps": 2, "keep": 1})
    made = job(tmp_path, ranker, files[:-1]).model_copy(
        update={"validation_files": files[-1:], "days": DAYS[:-1], "num_train_examples": 892}
    )
    for folder in (made.log_dir, made.output_dir, made.checkpoint_dir):
        Path(folder).mkdir(parents=True, exist_ok=True)
    collectives.start()

    def die(checkpointer: Checkpointer, target: Path) -> None:
        checkpointer.writer.finish()
        raise KeyboardInterrupt

    chosen = []

    def choose(*args: object) -> order_choice.ChosenOrder:
        chosen.append(order_choice.choose(*args))  # type: ignore[arg-type]
        return chosen[-1]

    monkeypatch.setattr(start, "choose", choose)
    with monkeypatch.context() as patched:
        patched.setattr(Checkpointer, "write_final", die)
        with pytest.raises(KeyboardInterrupt):
            train(made, "", "0", rank=0, ranks=1)
    train(made, "", "1", rank=0, ranks=1)
    report = json.loads((tmp_path / "output" / "training.json").read_text())
    [only] = chosen
    assert report["resumed_from_step"]
    assert [note for note in report["notes"] if note.startswith("training.order")] == [only.note]
    assert "newest 7 days" in only.note
