"""The kinds of the product: other tests may have registered some of others."""

from sangam.schemas.parts.kinds import Part, is_ours, kinds_of


def ours(role: type[Part]) -> dict[str, type[Part]]:
    """Returns the product's classes that fill a role, by kind."""
    return {kind: part for kind, part in kinds_of(role).items() if is_ours(part)}
