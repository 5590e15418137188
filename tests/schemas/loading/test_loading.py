"""Files that hold no spec are refused with one clear line; YAML is read as plain data."""

from pathlib import Path
from typing import Any

import pytest

from sangam.schemas.loading import MAX_FILE_BYTES, load_spec
from sangam.schemas.problems import SpecError, dotted
from tests.errors import tells
from tests.schemas.sample_specs import REMOVED, changed, write


def _error(path: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("content", "place", "value"),
    [
        (b"", "(whole file)", "`name:`"),
        (b"# only a comment\n", "(whole file)", "`name:`"),
        (b"- 1\n- 2\n", "(whole file)", "(got list) ... `name:`"),
        (b"just text\n", "(whole file)", "(got text) ... `name:`"),
        (b"name: \xff\xfe\n", "(whole file)", "byte 6"),
        (b"name: a\nname: b\n", "line 2: (whole file)", '"name"'),
        (b"name: [1, 2\ndata: 3\n", "line 2: (whole file)", "',' ... ']'"),
        (b"name: x\n\ttabs: 1\n", "line 2: (whole file)", "YAML"),
        (b"name: *nowhere\n", "line 1: (whole file)", "'nowhere'"),
        (b"name: a\n---\nname: b\n", "(whole file)", "YAML"),
        (b"name: a\x00b\n", "(whole file)", "YAML: unacceptable character"),
        (
            b"name: x\ndata: !!python/object/apply:os.system ['true']\n",
            "line 2: data",
            "(got 'tag:yaml.org,2002:python/object/apply:os.system')",
        ),
        (
            b"name: x\ndata: !!python/object:os.system {}\n",
            "line 2: data",
            "(got 'tag:yaml.org,2002:python/object:os.system')",
        ),
        (b"name: \xff\xfe".replace(b"name: ", b"") + "name: x\n".encode("utf-16-le"), "(whole file)", "UTF-8"),
        (b"name: !secret x\n", "line 1: name", "(got '!secret')"),
        (b"name: x\ndata: 2020-01-02\n", "line 2: data", "date"),
        (b"name: x\n3: y\n", "(whole file)", "(got 3)"),
        (b"name: &a {b: *a}\n", "data", "is missing"),
        (b"name: " + b"[" * 40 + b"]" * 40, "(whole file)", "30 levels"),
        (b"name: " + b"9" * 5_000, "(whole file)", "YAML: Exceeds the limit"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_no_spec_is_refused(tmp_path: Path, content: bytes, place: str, value: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    assert tells(_error(path).splitlines()[0], place, value)


@pytest.mark.parametrize(("number", "got"), [(".nan", "NaN"), (".inf", "Infinity"), ("-.inf", "-Infinity")])
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, number: str, got: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(f"training:\n  dense_optimizer: {{kind: sgd, learning_rate: {number}}}\n")
    assert tells(_error(path), "line 2: training.dense_optimizer.learning_rate", f"(got {got})")


def test_numbers_with_an_exponent_and_line_ends_of_windows_are_plain_yaml(tmp_path: Path) -> None:
    rate = {"kind": "sgd", "learning_rate": 0.0123}
    text = write(tmp_path / "plain.yaml", changed({"training.dense_optimizer": rate})).read_text()
    path = tmp_path / "spec.yaml"
    path.write_text(text.replace("0.0123", "1e-3").replace("\n", "\r\n"))
    assert load_spec(path).training.dense_optimizer.learning_rate == 0.001


@pytest.mark.parametrize(("written", "got"), [("1:30", "(got '1:30')"), ("010", "(got 10)"), ("no", "(got 'no')")])
def test_numbers_of_older_yaml_are_not_other_numbers(tmp_path: Path, written: str, got: str) -> None:
    text = write(tmp_path / "plain.yaml", changed({})).read_text()
    path = tmp_path / "spec.yaml"
    path.write_text(text.replace('"dim": 8', f'"dim": {written}', 1))
    if written == "010":
        assert load_spec(path).tables["users"].dim == 10
    else:
        assert tells(_error(path), "tables.users.dim", got)


def test_words_of_python_and_tensorflow_may_be_names(tmp_path: Path) -> None:
    features = {"lambda": {"kind": "numeric"}, "rows": {"kind": "numeric", "column": "class id"}}
    tasks = {"class": {"kind": "binary", "label": "like"}}
    gates = [{"task": "class", "metric": "auc", "at_least": 0.5}]
    names = {"name": "a" * 63, "features": features, "tasks": tasks}
    changes = names | {"tables": REMOVED, "evaluation": REMOVED, "gates": gates}
    spec = load_spec(write(tmp_path / "spec.yaml", changed(changes)))
    assert (len(spec.name), list(spec.features), list(spec.tasks)) == (63, ["lambda", "rows"], ["class"])


@pytest.mark.parametrize("levels", [300, 500])
def test_a_list_nested_hundreds_of_levels_deep_is_refused(tmp_path: Path, levels: int) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("name: " + "[" * levels + "]" * levels)
    assert tells(_error(path), "(whole file)", "30 levels")


def test_aliases_that_unfold_into_billions_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    path = tmp_path / "spec.yaml"
    path.write_text("\n".join(lines))
    assert tells(_error(path), "(whole file)", "100000")


def test_a_missing_file_a_folder_and_a_device_are_told_apart(tmp_path: Path) -> None:
    assert _error(tmp_path / "none.yaml").startswith("(whole file): no such file; ")
    assert _error(tmp_path).startswith("(whole file): is a folder; ")
    assert _error(Path("/dev/zero")).startswith("(whole file): is not a file; ")
    (tmp_path / "file").write_text("")
    assert tells(_error(tmp_path / "file" / "spec.yaml"), "(whole file)", "(Not a directory)")


def test_a_file_of_megabytes_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("#" * (MAX_FILE_BYTES + 1))
    assert tells(_error(path), "(whole file)", f"{MAX_FILE_BYTES + 1} ... {MAX_FILE_BYTES}")


def test_anchors_merge_keys_and_a_byte_order_mark_are_plain_yaml(tmp_path: Path) -> None:
    text = write(tmp_path / "plain.yaml", changed({})).read_text()
    shared = '"users": {"dim": 8}, "tags": {"dim": 4}'
    assert shared in text
    merged = text.replace(shared, '"users": &table {"dim": 8}, "tags": {<<: *table, "dim": 4}')
    path = tmp_path / "spec.yaml"
    path.write_text("\ufeff" + merged, encoding="utf-8")
    assert load_spec(path) == load_spec(tmp_path / "plain.yaml")


def _places(tmp_path: Path, changes: dict[str, Any]) -> list[str]:
    with pytest.raises(SpecError) as caught:
        load_spec(write(tmp_path / "spec.yaml", changed(changes)))
    return sorted(dotted(problem.loc) for problem in caught.value.problems)


def test_mistakes_within_sections_hide_none_across_them(tmp_path: Path) -> None:
    changes = {
        "training.epochs": -1,
        "features.age.normalize": "minimax",
        "features.user.table": "userz",
        "gates.0.metric": "auk",
        "gates.1.task": "starz",
        "colour": "red",
    }
    assert _places(tmp_path, changes) == [
        "colour",
        "features.age.normalize",
        "features.user.table",
        "gates[0].metric",
        "gates[1].task",
        "training.epochs",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        # The gate on it would be one on no task.
        {"tasks.like.kind": "binari"},
        # Its table would be of no feature, its slice of no column.
        {"features.tags.max_values": 0, "evaluation.slices": [["tags"]], "features.recent": REMOVED},
        {"data.train_days": "two"},
    ],
)
def test_a_part_that_is_wrong_is_missed_by_no_other(tmp_path: Path, changes: dict[str, Any]) -> None:
    [wrong] = [path for path in changes if not path.startswith(("evaluation", "features.recent"))]
    assert _places(tmp_path, changes) == [wrong]


def test_a_long_list_of_what_is_allowed_is_printed_once(tmp_path: Path) -> None:
    told = _error(write(tmp_path / "spec.yaml", changed({"gates.0.metric": "auk", "gates.1.metric": "acc"})))
    assert told.count("normalized_entropy, pr_auc") == 1
    assert tells(told.splitlines()[1].partition(": ")[2], "gates[1].metric", "(got 'acc'); see gates[0].metric")
