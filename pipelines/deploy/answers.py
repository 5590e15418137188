"""Values of the server's answers: times that have not come, states that it does not give."""

import datetime

_EPOCH_YEAR = 1970


def moment_of(value: datetime.datetime | None) -> datetime.datetime | None:
    """Returns a time from the server; None for one that has not come yet, which it gives as 1970 or as the year 1."""
    if value is None or value.year <= _EPOCH_YEAR:
        return None
    return value if value.tzinfo else value.replace(tzinfo=datetime.timezone.utc)


def state_of_text(text: str | None) -> str:
    """Returns a state in lower case; `pending` while the server gives none."""
    return "pending" if not text or text.endswith("UNSPECIFIED") else text.lower()
