"""What an exported model says of itself: read as it was written, refused in another format."""

import json

import pytest

from sangam.schemas.contracts.export import CUSTOM_OPS, changes_model, of_group, read_description
from sangam.schemas.errors import UserError
from tests.errors import place_and_value
from tests.schemas.sample_exports import sample_description

FILE = "assets.extra/ranker.json"


def test_a_description_is_read_as_it_was_written() -> None:
    described = sample_description(custom_ops=CUSTOM_OPS)
    assert read_description(FILE, described.text().encode()) == described


@pytest.mark.parametrize(("written", "got"), [(None, "none"), (0, "0"), (2, "2")])
def test_a_description_of_another_format_is_refused(written: int | None, got: str) -> None:
    document = json.loads(sample_description().text()) | {"format": written}
    if written is None:
        del document["format"]
    with pytest.raises(UserError, match=place_and_value(FILE, f"(got {got})")):
        read_description(FILE, json.dumps(document).encode())


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"{}"])
def test_what_is_no_description_is_refused_by_its_name(content: bytes) -> None:
    with pytest.raises(UserError, match=place_and_value(FILE, "(got ")):
        read_description(FILE, content)


def test_no_other_operations_than_ours_are_imported() -> None:
    with pytest.raises(UserError, match=place_and_value(FILE, "(got 'os')")):
        read_description(FILE, sample_description(custom_ops="os").text().encode())


def test_updates_are_known_by_name_with_and_without_a_group() -> None:
    assert [of_group("upsert", "adagrad_8", count) for count in (1, 2)] == ["upsert", "upsert_adagrad_8"]
    assert all(map(changes_model, ("upsert", "remove", "remove_adagrad_8")))
    assert not any(map(changes_model, ("upserted", "rank")))
