"""What tests assert of an error, `<place>: <what is wrong> (got <value>); <what is allowed>`: not its sentence.

A better sentence must cost no test. `place_and_value("data.kind", "(got 'day')")` is a pattern for
`pytest.raises(..., match=...)`; `tells(text, place, value)` asks the same of a text that a program printed. `...`
stands for any text within the line. Where place and value would fit another mistake too, one telling word follows, such
as an allowed name: `"(got 'nam') ... 'name'"`. An error without a value is told by such a word alone.
Of a sentence that is no error, such as a note or the reason of a verdict, `mentions` finds the names and numbers.
"""

import re


def place_and_value(place: str, value: str) -> str:
    """Returns a pattern of a line with a place, a colon, and later the value as it is printed."""
    # A place is whole: `data` is not found in `metadata: ...` or `cluster.data: ...`.
    return rf"(?<![\w.\]]){_pattern(place)}: .*{_pattern(value)}"


def tells(text: str, place: str, value: str) -> bool:
    """Returns whether a line of a text tells of a value at a place."""
    return re.search(place_and_value(place, value), text) is not None


def mentions(text: str, parts: str) -> bool:
    """Returns whether a line of a text holds names and numbers, in their order."""
    return re.search(_pattern(parts), text) is not None


def _pattern(text: str) -> str:
    return ".*".join(re.escape(part) for part in re.split(r" ?\.\.\. ?", text))
