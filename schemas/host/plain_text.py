"""Text from outside as text: what a terminal or a log would obey is written out."""

import datetime
import json
import logging
import os
import re
import sys

from sangam.schemas.errors import UserError

FORMAT_VARIABLE = "SANGAM_LOG_FORMAT"
"""Environment variable with the format of logs, `text` or `json`, of this process and its children."""
UTF8_OUTPUT = {"PYTHONIOENCODING": "utf-8"}
"""Environment of processes whose output is a log file, whatever encoding this process's terminal has."""
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


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON in ASCII, for programs that collect logs."""

    def format(self, record: logging.LogRecord) -> str:
        """Returns the line of a record."""
        at = datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(timespec="milliseconds")
        fields = {
            "at": at.replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "process": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def log_to_stderr(*, level: int = logging.INFO, form: str = LOG_FORM, force: bool = False) -> None:
    """Sends the records of all loggers to standard error; unless forced, only if they go nowhere else.

    Args:
        level: least level.
        form: form of a record as text; FORMAT_VARIABLE may ask for JSON instead.
        force: whether to replace other handlers.

    Raises:
        UserError: FORMAT_VARIABLE has another value.
    """
    wanted = os.environ.get(FORMAT_VARIABLE, "text")
    if wanted not in ("text", "json"):
        raise UserError(f"{FORMAT_VARIABLE}: no such format of logs (got {visible(wanted)}); text or json")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if wanted == "json" else PlainFormatter(form))
    logging.basicConfig(level=level, handlers=[handler], force=force)
