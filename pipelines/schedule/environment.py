"""A file of environment variables: timers and cron start runs without those of a shell."""

import re
import stat
from pathlib import Path

from schemas.errors import UserError

_LINE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)")
_MAX_BYTES = 2**16


def read_environment(path: Path) -> dict[str, str]:
    """Returns the variables of a file with lines NAME=VALUE; empty lines and those with # at their start are passed.

    Values are taken as they stand, without quotes and expansion. They are secrets: no error text shows one.

    Raises:
        UserError: a file that is not there, that others may read, or a line that is none.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            raise UserError(f"--environment: is no small file (got {path}); lines such as SANGAM_ALERT_KEY=...")
        if status.st_mode & 0o077:
            mode = f"{stat.S_IMODE(status.st_mode):03o}"
            raise UserError(
                f"--environment: other users may read it (got mode {mode} of {path}); do `chmod 600 {path}`: "
                "it holds secrets"
            )
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UserError(f"--environment: cannot be read (got {path}: {why}); give a file with NAME=VALUE") from None
    variables = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise UserError(
                f"{path}: line {number}: is no NAME=VALUE (not shown); write for example SANGAM_ALERT_KEY=..."
            )
        if match[2][:1] in ("'", '"'):
            raise UserError(f"{path}: line {number}: {match[1]} has quotes (not shown); write the value as it is")
        variables[match[1]] = match[2]
    return variables
