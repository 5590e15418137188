"""Text from outside as text: what a terminal or a log would obey is written out."""

import logging
import re
import sys

LOG_FORM = "%(asctime)s %(levelname)s %(name)s %(message)s"
# Controls but tab and line feed; marks that turn the direction of text; halves of surrogate pairs, which no file takes.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    """Returns a text with its control characters as escapes (ESC: x1b); tabs and line feeds stay."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class PlainFormatter(logging.Formatter):
    """Formats records without control characters; further lines of a message are indented, so it forges no record."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the lines of a record."""
        return visible(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Returns the record without its traceback."""
        return super().formatMessage(record).replace("\n", "\n  ")


def log_to_stderr(*, level: int = logging.INFO, form: str = LOG_FORM, force: bool = False) -> None:
    """Sends the records of all loggers to standard error; unless forced, only if they go nowhere else."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter(form))
    logging.basicConfig(level=level, handlers=[handler], force=force)
