"""Names and dates from outside that become paths, labels or names of objects, and YAML that wants to be code."""

import datetime
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from sangam.schemas.derived.days import parse_day
from sangam.schemas.loading import load_spec
from sangam.schemas.parts.base import Name
from sangam.schemas.problems import SpecError
from sangam.schemas.spec.cluster import SecretKey, Volume
from sangam.schemas.spec.kubernetes_names import AbsolutePath, DnsLabel, EnvironmentName, Image, LabelValue
from sangam.schemas.spec.release import DirectoryPush
from tests.paths import SPECS

DAYS = ["2024-3-1", "2024-03-01/../..", "../2024-03-01", "20240301", "2024-03-01\n", " 2024-03-01", "2024-03-01T00", ""]
DAYS += ["٢٠٢٤-٠٣-٠١", "2024-W10-1", "2024-02-30", "-024-03-01", "{YYYY}-03-01"]


@pytest.mark.parametrize("text", DAYS)
def test_only_plain_dates_become_parts_of_paths(text: str) -> None:
    with pytest.raises(ValueError, match="not a date"):
        parse_day(text)
    assert parse_day("2024-03-01") == datetime.date(2024, 3, 1)


@pytest.mark.parametrize(
    ("kind", "sound", "texts"),
    [
        (Name, "feed_1", ["../feed", "feed/x", "Feed", "feed\n", "féed", "", "a" * 64, ".", "feed x", "feed;x"]),
        (DnsLabel, "feed-1", ["feed_1", "Feed", "-feed", "feed-", "feed\n", "feed.x", "a" * 64, ""]),
        (LabelValue, "feed_1", ["feed/x", "feed\n", "-feed", "a" * 64, "feed x"]),
        (EnvironmentName, "A_1", ["1A", "A-B", "A=B", "A\n", ""]),
        (
            AbsolutePath,
            "/sangam/root",
            ["/", "root", "/a/../b", "/a//b", "/a/", "/a\n", "/a b", "/a;b", "/..", "/a/.."],
        ),
        (Image, "registry.example/a:1", ["a b", "a\n", "$(x)", "-a", "`x`", ""]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_names_hold_nothing_that_means_something_elsewhere(kind: object, sound: str, texts: list[str]) -> None:
    adapter: TypeAdapter[str] = TypeAdapter(kind)
    assert adapter.validate_python(sound) == sound
    for text in texts:
        with pytest.raises(ValidationError):
            adapter.validate_python(text)


@pytest.mark.parametrize("path", ["../out", "/etc", "a/../../b", "", "a/.."])
def test_a_model_is_pushed_below_the_root(path: str) -> None:
    with pytest.raises(ValidationError):
        DirectoryPush(kind="directory", path=path)


def test_a_secret_is_named_and_never_held() -> None:
    assert set(SecretKey.model_fields) == {"secret", "key"}
    with pytest.raises(ValidationError, match="extra_forbidden"):
        SecretKey.model_validate({"secret": "alerts", "key": "url", "value": "https://example.org"})
    with pytest.raises(ValidationError):
        Volume(claim="../x", path="/data")


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object/apply:os.system ['touch {mark}']",
        "!!python/object/new:subprocess.Popen [['touch', '{mark}']]",
        "!!python/name:os.system",
        "!!python/module:os",
        "!include /etc/hostname",
        "!!binary aGk=",
        "!!set {{a, b}}",
        "&a [*a]",
    ],
)
def test_yaml_is_data_and_never_code(tmp_path: Path, value: str) -> None:
    mark = tmp_path / "ran"
    spec = tmp_path / "spec.yaml"
    text = (SPECS / "short_video.yaml").read_text()
    spec.write_text(text.replace("name: short_video\n", f"name: {value.format(mark=mark)}\n", 1))
    with pytest.raises(SpecError, match=r"spec\.yaml: line 2: "):
        load_spec(spec)
    assert not mark.exists()


def test_a_few_lines_of_yaml_do_not_unfold_into_gigabytes(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    spec.write_text("\n".join(lines))
    with pytest.raises(SpecError, match="too many values"):
        load_spec(spec)
