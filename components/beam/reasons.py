"""Extracts the reason of a failed job on an engine, in one line, from the errors of Flink, Beam and Python."""

import re

_CAUSE = re.compile(r"^\s*Caused by: (.+)$", re.MULTILINE)
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failed|Timeout)\b(?:: .*)?$")
_FRAME = re.compile(r"\n\s+(?:at |\.\.\. \d)")
_TRACEBACK = "Traceback (most recent call last)"
_LACKS_CODE = re.compile(r"No module named 'sangam\b")
_NO_POOL = re.compile(
    r"client cancelled|connection refused|failed to connect to all addresses|\bUNAVAILABLE\b|worker disconnected",
    re.IGNORECASE,
)
OTHER_VERSION = "has another version of the code"
_MOST = 600

POOL_LACKS_CODE = "the worker pool lacks our code: start it from the image of the step"
POOL_IS_GONE = "the worker pool is gone or lacks our code: see its log, and start it from the image of the step"


def last_cause(text: str) -> str:
    """Returns the last cause in an error's text: of Java's "Caused by" and of Python's tracebacks, in one line."""
    # Flink's REST answers with a stack trace as one line of JSON.
    plain = text.replace("\\r", "").replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    causes = list(_CAUSE.finditer(plain))
    rest = plain[causes[-1].start(1) :] if causes else plain
    lines = rest.splitlines()
    raised = [line.strip() for line in lines if _RAISED.match(line.strip()) and not line.startswith(("\tat ", "    "))]
    if _TRACEBACK in rest and raised:
        found = raised[-1]
    elif causes:
        # A cause may span several lines, up to the first frame.
        found = _FRAME.split(rest, maxsplit=1)[0]
    else:
        found = next((line for line in reversed(lines) if line.strip() and not line.startswith("\tat ")), "no reason")
    return _short(found)


def advice(text: str) -> str:
    """Returns the remedy for an error; empty if none is known."""
    if OTHER_VERSION in text:
        return "restart it from the image of the step"
    if _LACKS_CODE.search(text):
        return POOL_LACKS_CODE
    return POOL_IS_GONE if _NO_POOL.search(text) else ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MOST else f"{line[: _MOST - 3]}..."
