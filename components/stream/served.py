"""Messages of served requests as rows, one for each candidate, like the files of the same log."""

from collections.abc import Mapping
from typing import Any

from sangam.schemas.contracts.request_log import CANDIDATE, FORMAT, MESSAGE_FORMAT, NUM_CANDIDATES
from sangam.schemas.errors import UserError

_MOST_BYTES = 256 * 2**20


def rows_of(message: Mapping[str, Any], size: int, place: str) -> list[dict[str, Any]]:
    """Returns the rows of a message: of a served request its candidates, of any other one itself.

    Args:
        message: parsed JSON.
        size: its bytes: they times the candidates bound the memory.
        place: place for errors.

    Raises:
        UserError: it has another format, or a column has neither one value nor one for each candidate.
    """
    if MESSAGE_FORMAT not in message:
        return [dict(message)]
    if message[MESSAGE_FORMAT] != FORMAT:
        raise UserError(f"{place}: format is not {FORMAT} (got {message[MESSAGE_FORMAT]!r}); read it with its release")
    places = message.get(CANDIDATE)
    number = len(places) if isinstance(places, list) else message.get(NUM_CANDIDATES)
    if type(number) is not int or not 0 <= number <= _MOST_BYTES // max(size, 1):
        raise UserError(
            f"{place}: {NUM_CANDIDATES} is no number of candidates (got {number!r}); the server counts them"
        )
    columns = {name: value for name, value in message.items() if name != MESSAGE_FORMAT}
    for name, value in columns.items():
        if isinstance(value, list) and len(value) not in (1, number):
            raise UserError(
                f"{place}: column '{name}': has neither one value nor one for each candidate (got {len(value)} values "
                f"for {number} candidates); write it again"
            )
    return [
        {
            name: value if not isinstance(value, list) else value[at if len(value) > 1 else 0]
            for name, value in columns.items()
        }
        for at in range(number)
    ]
