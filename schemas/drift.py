"""How far a day's examples may be from those that the model is trained on."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import Declaration, Name

Share = Annotated[float, Field(ge=0, le=1)]


class DriftBounds(Declaration):
    """Largest distances of a feature's values, evaluation split against training split."""

    l_infinity: Share | None = None
    """Ids: the largest difference of a value's share among the values."""
    jensen_shannon: Share | None = None
    """Jensen-Shannon divergence of the distributions of the values, base 2: 0 for equal ones, 1 for disjoint ones."""
    missing_share: Share | None = None
    """Largest difference of the shares of examples without the feature."""


class Drift(Declaration):
    """The gate on the input, before anything is trained on it."""

    action: Literal["stop", "warn"]
    """`stop`: the run fails, naming every feature out of bounds. `warn`: a note in the run's summary."""
    every: DriftBounds | None = None
    """Bounds of the features without their own; `l_infinity` binds ids, `jensen_shannon` numbers."""
    features: Annotated[dict[Name, DriftBounds], Field(min_length=1)] | None = None

    def bounds_of(self, feature: str, *, is_numeric: bool) -> DriftBounds:
        """Returns a feature's bounds: its own, or those of every feature as far as they mean something for it."""
        own = (self.features or {}).get(feature)
        if own is not None or self.every is None:
            return own or DriftBounds()
        return self.every.model_copy(update={"l_infinity" if is_numeric else "jensen_shannon": None})
