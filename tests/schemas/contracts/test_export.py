"""What an exported model says of itself: read as it was written, refused in another format; loaded in an older one."""

import json

import pytest

from schemas.contracts.export import CUSTOM_OPS, Header, changes_model, of_group, read_description, read_header
from schemas.errors import UserError
from tests.errors import place_and_value
from tests.schemas.sample_exports import sample_description

FILE = "assets.extra/ranker.json"


def test_a_description_is_read_as_it_was_written() -> None:
    described = sample_description(custom_ops=CUSTOM_OPS)
    assert read_description(FILE, described.text().encode()) == described
    assert read_header(FILE, described.text().encode()) == Header(format=2, name="short_video", custom_ops=CUSTOM_OPS)


@pytest.mark.parametrize(("written", "got"), [(None, "none"), (1, "1"), (3, "3")])
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


def test_a_model_without_a_format_can_be_loaded_and_one_of_a_later_format_cannot() -> None:
    assert read_header(FILE, b'{"name": "feed", "ranker": {"normalise": 1}}') == Header(name="feed")
    with pytest.raises(UserError, match=place_and_value(FILE, "(got 3)")):
        read_header(FILE, b'{"format": 3}')


def test_no_other_operations_than_ours_are_imported() -> None:
    with pytest.raises(UserError, match=place_and_value(FILE, "(got 'os')")):
        read_header(FILE, b'{"custom_ops": "os"}')


def test_updates_are_known_by_name_with_and_without_a_group() -> None:
    assert [of_group("upsert", "adagrad_8", count) for count in (1, 2)] == ["upsert", "upsert_adagrad_8"]
    assert all(map(changes_model, ("upsert", "remove", "remove_adagrad_8")))
    assert not any(map(changes_model, ("upserted", "rank")))
