"""The settings of a version's log, which the pusher has put into its manifest."""

import json
from pathlib import Path

from pydantic import ValidationError

from sangam.components.registry.versions import MANIFEST_FILE
from sangam.schemas.errors import UserError
from sangam.schemas.spec.serving import RequestLog


def settings_of(version: Path) -> RequestLog | None:
    """Returns a version's settings; None where it has none, or was not pushed by Sangam.

    Raises:
        UserError: they cannot be read.
    """
    file = version / MANIFEST_FILE
    try:
        told = json.loads(file.read_bytes()).get("request_log")
        return None if told is None else RequestLog.model_validate_json(json.dumps(told))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ValidationError, AttributeError) as error:
        raise UserError(f"{file}: request_log cannot be read (got {error}); push the model again") from error
