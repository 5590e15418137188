"""Files of properties for clients of Kafka: lines PROPERTY=VALUE of librdkafka, such as those for TLS and SASL."""

from collections.abc import Collection, Mapping
from pathlib import Path

from sangam.schemas.errors import UserError


def read_properties(file: Path, option: str, refused: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties of a file.

    Args:
        file: the file.
        option: option that names it, for errors.
        refused: properties that it must not set, each with its reason.

    Raises:
        UserError: the file cannot be read, a line is no property, or is refused.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(
            f"{option}: {file}: cannot be read (got {error}); give a file of lines PROPERTY=VALUE"
        ) from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not name or name.startswith("#"):
            continue
        place = f"{option}: {file}:{number}"
        if not equals:
            raise UserError(f"{place}: is no property (got a line without '='); write PROPERTY=VALUE")
        if name in refused:
            raise UserError(f"{place}: must not be set here (got {name}): {refused[name]}; remove the line")
        if name in found:
            raise UserError(f"{place}: is set twice (got {name}); remove one of the lines")
        found[name] = value
    return found


def refused_by_librdkafka(place: str, names: Collection[str], error: Exception) -> UserError:
    """Returns the error of properties that librdkafka does not take.

    Args:
        place: option, and the file if there is one.
        names: properties that were given.
        error: of its client; its message is left out, which may contain a secret from a misplaced line.
    """
    named = [name for name in names if f'"{name}"' in str(error)] or ["one of its properties"]
    return UserError(
        f"{place}: librdkafka refuses it (got {named[0]}); its documentation lists the properties and their values"
    )
