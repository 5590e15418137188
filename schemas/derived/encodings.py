"""Which numbers are encoded together, and where the floats of each stand among the model's inputs."""

from dataclasses import dataclass
from typing import assert_never

from sangam.schemas.derived.outputs import outputs
from sangam.schemas.spec import Inputs
from sangam.schemas.spec.encodings import PeriodicEncoding, PiecewiseLinearEncoding, StandardEncoding
from sangam.schemas.spec.features import OneNumber, learns_missing

Blocks = tuple[tuple[str, int], ...]
"""Features and how many floats each has, in turn."""


@dataclass(frozen=True)
class EncodedTogether:
    """Numbers with encodings of one shape: their layers are one product.

    Attributes:
        name: prefix of the weights' names.
        encoding: encoding of all of them; its `tails` concern Transform alone.
        features: names of the features.
        has_missing: whether each has a second float, which is 1 where the number is missing.
    """

    name: str
    encoding: PiecewiseLinearEncoding | PeriodicEncoding
    features: tuple[str, ...]
    has_missing: bool

    @property
    def num_inputs(self) -> int:
        """Number of inputs of each feature's linear layer."""
        match self.encoding:
            case PiecewiseLinearEncoding(bins=bins):
                return bins + self.has_missing
            case PeriodicEncoding(frequencies=frequencies):
                return 2 * frequencies + self.has_missing
            case _:
                assert_never(self.encoding)


def encoded_together(inputs: Inputs) -> list[EncodedTogether]:
    """Returns the numbers with an encoding, grouped by shape."""
    found: dict[str, EncodedTogether] = {}
    for name, feature in inputs.features.items():
        if not isinstance(feature, OneNumber) or isinstance(feature.encoding, StandardEncoding):
            continue
        has_missing = learns_missing(feature)
        shape = f"numbers/{_shape(feature.encoding)}{'_missing' if has_missing else ''}"
        before = found[shape].features if shape in found else ()
        found[shape] = EncodedTogether(shape, feature.encoding, (*before, name), has_missing)
    return list(found.values())


def _shape(encoding: PiecewiseLinearEncoding | PeriodicEncoding) -> str:
    match encoding:
        case PiecewiseLinearEncoding(bins=bins, dim=dim):
            return f"piecewise_linear_{bins}_{dim}"
        case PeriodicEncoding(frequencies=frequencies, sigma=sigma, dim=dim):
            return f"periodic_{frequencies}_{sigma}_{dim}"
        case _:
            assert_never(encoding)


def float_inputs(inputs: Inputs) -> Blocks:
    """Returns the floats that the model sees: Transform's plain floats, then the encoded ones."""
    together = encoded_together(inputs)
    encoded = {name for each in together for name in each.features}
    plain = [each for each in outputs(inputs) if each.name in inputs.features and each.type == "float"]
    return (
        *((output.name, output.width) for output in plain if output.name not in encoded),
        *((name, each.encoding.dim) for each in together for name in each.features),
    )
