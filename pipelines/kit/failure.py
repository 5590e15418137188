"""A check that does not hold."""

from sangam.schemas.parts.kinds import Part, place_of


class PartFailure(AssertionError):
    """A part breaks what the trainer, the evaluator, a resume or a server relies on."""


def failure(part: Part, check: str, what: str) -> PartFailure:
    """Returns the error of a check, with the class's file and line."""
    return PartFailure(f"{place_of(type(part))}: {check}: {what} ({part.role} '{part.kind}')")
