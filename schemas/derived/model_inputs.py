"""The order of features in a batch, and of the model's inputs that they become."""

from collections.abc import Callable

from sangam.schemas.derived.columns import event_of, times_of
from sangam.schemas.derived.encodings import float_inputs
from sangam.schemas.derived.groups import groups_of
from sangam.schemas.derived.outputs import outputs
from sangam.schemas.parts.inputs import ModelInputs
from sangam.schemas.parts.weight import Blocks
from sangam.schemas.spec import RankerSpec
from sangam.schemas.spec.encoders import MeanEncoder
from sangam.schemas.spec.events import EventAmount, EventId
from sangam.schemas.spec.features import IdsFeature, SequenceFeature


class FeatureOrder:
    """The features of a batch.

    Attributes:
        floats: features that are floats, with their widths.
        ids: features of one id, by group of tables.
        unweighted: features of several ids without weights whose rows are combined, by group.
        weighted: features of several ids with weights whose rows are combined, by group.
        encoded: sequences with an encoder, or with more than rows of ids, by group.
        event_ids: further ids of the events of sequences, as outputs of Transform, by group.
        amounts: amounts of the events of sequences, as outputs of Transform.
        timed: sequences with times.
        parts: names in the spec of what is beside a sequence's ids, by sequence and output of Transform.
        sequence_of: the sequence of each such output, and of times.
    """

    def __init__(self, spec: RankerSpec):
        own = {output.name: output for output in outputs(spec) if output.name in spec.features}
        groups = groups_of(spec)

        def by_group(is_member: Callable[[str], bool]) -> dict[str, tuple[str, ...]]:
            return {
                name: tuple(each for each in own if spec.table_of(each) in group.tables and is_member(each))
                for name, group in groups.items()
            }

        weighted, encoded = set(), set()
        for name in own:
            match spec.features[name]:
                case IdsFeature(weights=str()):
                    weighted.add(name)
                case SequenceFeature() as each if each.adds_to_rows or not isinstance(each.encoder, MeanEncoder):
                    encoded.add(name)
        self.floats: Blocks = tuple((name, output.width) for name, output in own.items() if output.type == "float")
        self.ids = by_group(lambda name: not own[name].is_list)
        self.unweighted = by_group(lambda name: own[name].is_list and name not in weighted | encoded)
        self.weighted = by_group(lambda name: name in weighted)
        self.encoded = by_group(lambda name: name in encoded)
        sequences = {name: each for name, each in spec.features.items() if isinstance(each, SequenceFeature)}
        beside = [(name, part, each) for name, feature in sequences.items() for part, each in feature.beside.items()]
        tables = {event_of(name, part): each.table for name, part, each in beside if isinstance(each, EventId)}
        self.event_ids = {
            name: tuple(output for output, table in tables.items() if table in group.tables)
            for name, group in groups.items()
        }
        self.amounts = tuple(event_of(name, part) for name, part, each in beside if isinstance(each, EventAmount))
        self.timed = tuple(name for name, feature in sequences.items() if feature.times)
        self.parts = {
            name: {event_of(name, part): part for part in feature.beside} for name, feature in sequences.items()
        }
        self.sequence_of = {output: name for name, outputs in self.parts.items() for output in outputs}
        self.sequence_of |= {times_of(name): name for name in self.timed}

    def combined(self, group: str) -> tuple[str, ...]:
        """Returns a group's features whose embeddings are combined; those with weights come last."""
        return (*self.unweighted[group], *self.weighted[group])

    def lists(self, group: str) -> tuple[str, ...]:
        """Returns a group's lists of ids, in their order in the batch: of features, then of further ids of events."""
        return (*self.combined(group), *self.encoded[group], *self.event_ids[group])

    def features(self, group: str) -> tuple[str, ...]:
        """Returns a group's features in the order of the model's inputs."""
        return (*self.ids[group], *self.combined(group), *self.encoded[group])


def model_inputs(spec: RankerSpec) -> ModelInputs:
    """Returns the inputs of a ranker's model."""
    order = FeatureOrder(spec)
    embeddings = ((feature, group.dim) for name, group in groups_of(spec).items() for feature in order.features(name))
    return ModelInputs(float_inputs(spec), tuple(embeddings))
