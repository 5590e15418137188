"""Tells on the page of a run, which was drawn before, what became of its version in the shadow."""

import re
from collections.abc import Sequence
from pathlib import Path

from markupsafe import escape

from sangam.schemas.host.files import write_whole

_PLACE = re.compile(r'<div id="shadow">.*?</div>', re.DOTALL)


def tell(page: Path, lines: Sequence[str]) -> bool:
    """Writes lines into the verdict of a page; returns whether there was a place for them."""
    if not page.is_file():
        return False
    text = page.read_text(encoding="utf-8")
    told = "".join(f"<p>{escape(line)}</p>" for line in lines)
    found, number = _PLACE.subn(lambda _: f'<div id="shadow">{told}</div>', text, count=1)
    if number:
        write_whole(page, found)
    return bool(number)
