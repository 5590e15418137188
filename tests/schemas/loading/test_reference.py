"""The reference lists every key of a spec once, with type, default and meaning; docs/spec.md ends with it."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from sangam.schemas.loading import json_schema
from sangam.schemas.loading.reference import reference
from sangam.schemas.parts.base import FrozenModel, Name, PositiveFloat, PositiveInt
from tests.golden_files import check_golden

MARK = "<!-- Generated from schemas/spec from here to the end; `make golden` rewrites it. -->\n\n"


def test_spec_page_ends_with_the_golden_text_of_the_reference(repository: Path) -> None:
    written, mark, _ = (repository / "docs" / "spec.md").read_text(encoding="utf-8").partition(MARK)
    check_golden("../../docs/spec.md", written + mark + reference(json_schema()))


class Both(FrozenModel):
    """Both."""

    first: PositiveInt = 3
    """First."""
    second: PositiveFloat
    """Second; docs/data.md#times."""
    third: list[Name] = Field(default_factory=list)
    """Third."""
    fourth: Literal["a", "b"] | None = None
    """Fourth, a | b."""


class More(Both):
    """More."""

    fifth: bool = False
    """Fifth."""


class Small(FrozenModel):
    """Small."""

    kind: Literal["small"]
    size: PositiveInt
    """Size."""


class Large(FrozenModel):
    """Large."""

    kind: Literal["large"]
    size: PositiveInt
    """Size."""
    both: Both
    """Part."""


class Top(FrozenModel):
    """Top."""

    sized: dict[Name, Annotated[Small | Large, Field(discriminator="kind")]]
    """Sized things."""
    more: tuple[More, ...] = ()
    """Further things."""


def test_each_key_is_listed_once_with_type_default_and_meaning() -> None:
    assert (
        reference(Top.model_json_schema())
        == """\
## Sections

| key | type | default | meaning |
| --- | --- | --- | --- |
| `sized` | mapping of name to [`sized.<name>`](#sizedname) | required | Sized things. |
| `more` | list of [`more[]`](#more) | empty | Further things. |

## `sized.<name>`
- `kind: small`: Small.
- `kind: large`: Large.

| key | of | type | default | meaning |
| --- | --- | --- | --- | --- |
| `size` | all | int, from 1 | required | Size. |
| `both` | `large` | [`sized.<name>.both`](#sizednameboth) | required | Part. |

### `sized.<name>.both`
Both.

| key | type | default | meaning |
| --- | --- | --- | --- |
| `first` | int, from 1 | `3` | First. |
| `second` | float, above 0 | required | Second; [data.md](data.md#times). |
| `third` | list of name | empty | Third. |
| `fourth` | `a`, `b` | none | Fourth, a \\| b. |

## `more[]`
More. The keys of [`sized.<name>.both`](#sizednameboth), and:

| key | type | default | meaning |
| --- | --- | --- | --- |
| `fifth` | bool | `false` | Fifth. |
"""
    )
