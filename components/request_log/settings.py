"""What a version's manifest says of its requests: the settings of their log, and of its time in the shadow."""

import json
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from sangam.components.registry.versions import MANIFEST_FILE
from sangam.schemas.errors import UserError
from sangam.schemas.spec.serving import InShadow, RequestLog

_Kind = TypeVar("_Kind", bound=BaseModel)


def settings_of(version: Path) -> RequestLog | None:
    """Returns the settings of a version's log; None where it has none, or was not pushed by Sangam.

    Raises:
        UserError: they cannot be read.
    """
    return _read(version / MANIFEST_FILE, "request_log", RequestLog)


def shadow_of(version: Path) -> InShadow | None:
    """Returns what a version scores while it is in the shadow of the served one; None: nothing.

    Raises:
        UserError: it cannot be read.
    """
    return _read(version / MANIFEST_FILE, "shadow", InShadow)


def _read(file: Path, key: str, kind: type[_Kind]) -> _Kind | None:
    try:
        told = json.loads(file.read_bytes()).get(key)
        return None if told is None else kind.model_validate_json(json.dumps(told))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ValidationError, AttributeError) as error:
        raise UserError(f"{file}: {key} cannot be read (got {error}); push the model again") from error
