"""Signs time and body of an alert, so that receivers can verify the sender and reject replays."""

import hashlib
import hmac

SIGNATURE_HEADER = "X-Sangam-Signature"
TIMESTAMP_HEADER = "X-Sangam-Timestamp"
MAX_AGE_S = 300
_SCHEME = "sha256="


def signature(key: str, timestamp: str, body: bytes) -> str:
    """Returns the value of SIGNATURE_HEADER: HMAC-SHA256 over `<timestamp>.<body>`."""
    return _SCHEME + hmac.new(key.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def verify(key: str, timestamp: str, given: str, body: bytes, *, now: float, max_age_s: int = MAX_AGE_S) -> bool:
    """Says whether a body was signed with this key recently.

    Args:
        key: the shared key.
        timestamp: value of TIMESTAMP_HEADER, seconds since 1970.
        given: value of SIGNATURE_HEADER.
        body: the bytes received.
        now: seconds since 1970.
        max_age_s: largest difference from `now`. Within it, the body's `id` identifies repeated alerts.
    """
    # Only digits: int() accepts more.
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        return False
    expected = signature(key, timestamp, body).encode()
    return hmac.compare_digest(expected, given.encode()) and abs(now - int(timestamp)) <= max_age_s
