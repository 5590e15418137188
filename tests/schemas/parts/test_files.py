"""Files of parts: found beside the spec, and refused with another content."""

import hashlib
from pathlib import Path

import pytest

from sangam.schemas.errors import UserError
from sangam.schemas.parts.files import PinnedFile
from tests.errors import place_and_value

DIGEST = hashlib.sha256(b"codes").hexdigest()


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The second of two folders of specs."""
    folders = [tmp_path / name for name in ("other", "spec")]
    for folder in folders:
        folder.mkdir()
    monkeypatch.setenv("SANGAM_PARTS", ":".join(map(str, folders)))
    return folders[1]


def test_a_file_is_read_beside_the_spec_or_by_its_absolute_path(beside: Path, tmp_path: Path) -> None:
    (beside / "codes.bin").write_bytes(b"codes")
    assert PinnedFile(path="codes.bin", sha256=DIGEST).read() == b"codes"
    assert PinnedFile(path=str(beside / "codes.bin"), sha256=DIGEST).read() == b"codes"


def test_a_missing_file_is_told_with_the_places(beside: Path) -> None:
    with pytest.raises(UserError, match=place_and_value("path", "codes.bin")) as raised:
        PinnedFile(path="codes.bin", sha256=DIGEST).read()
    assert str(beside / "codes.bin") in str(raised.value)


def test_another_content_is_told_with_its_digest(beside: Path) -> None:
    (beside / "codes.bin").write_bytes(b"others")
    with pytest.raises(UserError, match=place_and_value("sha256", DIGEST)) as raised:
        PinnedFile(path="codes.bin", sha256=DIGEST).read()
    assert hashlib.sha256(b"others").hexdigest() in str(raised.value)
