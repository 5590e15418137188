"""Who may look."""

from pathlib import Path

import pytest

from sangam.pipelines.ui.access import Access, is_loopback, read_token
from sangam.schemas.errors import UserError
from tests.errors import place_and_value

TOKEN = "a-token-of-enough-characters"


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("::1", True),
        ("127.8.8.8", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.5", False),
        ("localhost.example.com", False),
    ],
)
def test_an_address_is_of_this_machine_alone_or_not(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own


@pytest.mark.parametrize(
    ("header", "is_known"),
    [
        ("localhost:8088", True),
        ("127.0.0.1", True),
        ("[::1]:80", True),
        ("LOCALHOST", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("[::1]evil", False),
        ("", False),
    ],
)
def test_a_name_that_leads_here_from_elsewhere_is_not_answered_to(header: str, is_known: bool) -> None:
    assert Access(None, any_host=False).knows_host(header) is is_known
    assert Access(TOKEN, any_host=True).knows_host(header)


def test_without_a_token_everybody_may_look_and_with_one_whoever_has_it() -> None:
    assert Access(None, any_host=False).allows(authorization=None, cookie=None)
    access = Access(TOKEN, any_host=True)
    assert access.allows(authorization=f"Bearer {TOKEN}", cookie=None)
    assert access.allows(authorization=None, cookie=access.cookie)
    for authorization, cookie in ((None, None), (f"Bearer {TOKEN}x", None), (f"Basic {TOKEN}", None), (None, TOKEN)):
        assert not access.allows(authorization=authorization, cookie=cookie)
    assert TOKEN not in access.cookie


def test_a_token_comes_from_a_file_before_the_environment(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    environment = {"SANGAM_UI_TOKEN": "another-token-of-16"}
    assert read_token(tmp_path / "token", environment) == TOKEN
    assert read_token(None, environment) == "another-token-of-16"
    assert read_token(None, {}) is None


def test_a_token_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "short").write_text("abc")
    with pytest.raises(UserError, match=place_and_value("--token-file", "3 characters")):
        read_token(tmp_path / "short", {})
    with pytest.raises(UserError, match=place_and_value("--token-file", str(tmp_path / "none"))):
        read_token(tmp_path / "none", {})
    with pytest.raises(UserError, match=r"^\$SANGAM_UI_TOKEN: "):
        read_token(None, {"SANGAM_UI_TOKEN": "abc"})
