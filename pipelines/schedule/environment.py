"""A file of environment variables: systemd and cron start runs without the shell's variables."""

import re
import stat
from pathlib import Path

from sangam.schemas.errors import UserError

_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_MAX_BYTES = 2**16


def read_environment(path: Path) -> dict[str, str]:
    """Returns the variables of a file of lines NAME=VALUE; empty lines and lines that start with # are skipped.

    Values are taken literally, without quotes or expansion. They are secrets: no error text shows one.

    Raises:
        UserError: the file cannot be read, other users may read it, or a line is not NAME=VALUE.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            raise UserError(
                f"--environment: is not a file, or larger than {_MAX_BYTES} bytes (got {path}); give a file of lines "
                "such as SANGAM_ALERT_KEY=..."
            )
        if status.st_mode & 0o077:
            mode = f"{stat.S_IMODE(status.st_mode):03o}"
            raise UserError(
                f"--environment: holds secrets, and other users may read it (got mode {mode} of {path}); "
                f"`chmod 600 {path}`"
            )
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UserError(f"--environment: cannot be read (got {path}: {why}); give a file of lines NAME=VALUE") from None
    variables = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise UserError(f"{path}: line {number}: is not NAME=VALUE (not shown); for example SANGAM_ALERT_KEY=...")
        if match[2][:1] in ("'", '"'):
            raise UserError(f"{path}: line {number}: {match[1]} has quotes (not shown); write the value without them")
        variables[match[1]] = match[2]
    return variables
