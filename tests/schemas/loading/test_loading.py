"""Files that hold no spec are refused with one clear line; YAML is read as plain data."""

from pathlib import Path

import pytest

from schemas.loading import MAX_FILE_BYTES, load_spec
from schemas.problems import SpecError
from tests.schemas.sample_specs import changed, write


def _error(path: Path) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "(whole file): is empty; a spec starts with `name:`"),
        (b"# only a comment\n", "(whole file): is empty; a spec starts with `name:`"),
        (b"- 1\n- 2\n", "(whole file): is no mapping (got list); a spec starts with `name:`"),
        (b"just text\n", "(whole file): is no mapping (got text); a spec starts with `name:`"),
        (b"name: \xff\xfe\n", "(whole file): is not UTF-8 text (invalid start byte at byte 6); save it as UTF-8"),
        (b"name: a\nname: b\n", 'line 2: (whole file): found duplicate key "name"; write every key once'),
        (b"name: [1, 2\ndata: 3\n", "line 2: (whole file): is not YAML: expected ',' or ']'"),
        (b"name: x\n\ttabs: 1\n", "line 2: (whole file): is not YAML: "),
        (b"name: *nowhere\n", "line 1: (whole file): is not YAML: found undefined alias 'nowhere'; mend the syntax"),
        (b"name: a\n---\nname: b\n", "(whole file): is not YAML: "),
        (b"name: a\x00b\n", "(whole file): is not YAML: unacceptable character"),
        (b"name: x\ndata: !!python/object/apply:os.system ['true']\n", "line 2: data: has a tag (got "),
        (b"name: x\ndata: !!python/object:os.system {}\n", "line 2: data: has a tag (got "),
        (b"name: !secret x\n", "line 1: name: has a tag (got '!secret'); a spec holds plain YAML, without tags"),
        (b"name: x\ndata: 2020-01-02\n", "line 2: data: is a "),
        (b"name: x\n3: y\n", "(whole file): has a key that is no text (got 3); put quotes round it"),
        (b"name: &a {b: *a}\n", "; "),
        (b"name: " + b"[" * 40 + b"]" * 40, "(whole file): is nested too deeply; at most 30 levels"),
        (b"name: " + b"9" * 5_000, "(whole file): is not YAML: Exceeds the limit"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_no_spec_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_bytes(content)
    assert message in _error(path).splitlines()[0]


@pytest.mark.parametrize("number", [".nan", ".inf", "-.inf"])
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, number: str) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(f"training:\n  dense_optimizer: {{kind: sgd, learning_rate: {number}}}\n")
    assert "line 2: training.dense_optimizer.learning_rate: not allowed (got " in _error(path)


def test_a_list_nested_ten_thousand_deep_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("name: " + "[" * 10_000 + "]" * 10_000)
    assert _error(path) == "(whole file): is nested too deeply; at most 30 levels"


def test_aliases_that_unfold_into_billions_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    path = tmp_path / "spec.yaml"
    path.write_text("\n".join(lines))
    assert _error(path).startswith("(whole file): has too many values (more than 100000, aliases unfolded); ")


def test_a_missing_file_a_folder_and_a_device_are_told_apart(tmp_path: Path) -> None:
    assert _error(tmp_path / "none.yaml").startswith("(whole file): no such file; give the path of a spec, for example")
    assert _error(tmp_path) == "(whole file): is a folder; give the path of a YAML file"
    assert _error(Path("/dev/zero")) == "(whole file): is no file; give the path of a YAML file"
    (tmp_path / "file").write_text("")
    assert _error(tmp_path / "file" / "spec.yaml").startswith("(whole file): cannot be read (Not a directory); ")


def test_a_file_of_megabytes_is_not_parsed(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text("#" * (MAX_FILE_BYTES + 1))
    assert _error(path) == f"(whole file): is {MAX_FILE_BYTES + 1} bytes long; at most {MAX_FILE_BYTES}"


def test_anchors_merge_keys_and_a_byte_order_mark_are_plain_yaml(tmp_path: Path) -> None:
    text = write(tmp_path / "plain.yaml", changed({})).read_text()
    shared = '"users": {"dim": 8}, "tags": {"dim": 4}'
    assert shared in text
    merged = text.replace(shared, '"users": &table {"dim": 8}, "tags": {<<: *table, "dim": 4}')
    path = tmp_path / "spec.yaml"
    path.write_text("\ufeff" + merged, encoding="utf-8")
    assert load_spec(path) == load_spec(tmp_path / "plain.yaml")
