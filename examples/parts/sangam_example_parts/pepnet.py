"""PEPNet: gates by the domain over the embeddings, by the user and the item over the layers of the towers."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from sangam.parts import (
    Architecture,
    Blocks,
    ModelInputs,
    Name,
    Noise,
    PositiveInt,
    Problem,
    Tensor,
    Units,
    Weight,
    Weights,
    dense,
    heads,
    mlp,
    tf,
)

Features = Annotated[tuple[Name, ...], Field(min_length=1)]


class PepNet(Architecture):
    """Towers whose inputs and layers are scaled for each example.

    Chang et al.: PEPNet: Parameter and embedding personalized network for infusing with personalized prior information,
    KDD 2023. GateNU(x) = 2 sigmoid(relu(x W + b) W' + b'). With sg for stop_gradient and [,] for
    concatenation, E of all features, H_1 = relu(O_ep W_0 + b_0) of each task, and one GateNU for each layer l:

        EPNet:  O_ep = GateNU([E_domain, sg(E)]) * E
        PPNet:  O_l = GateNU_l([E_prior, sg(O_ep)]) * H_l,  H_{l+1} = relu(O_l W_l + b_l)
    """

    kind: Literal["pepnet"]
    domain: Features
    """Features of the domain, such as the tab or statistics of it."""
    prior: Features
    """Features of the user and the item that personalize the towers."""
    units: Units
    """Layer widths of each task's tower."""
    gate_units: PositiveInt = 16
    """Width of the hidden layer of a gate."""

    def problems(self, inputs: ModelInputs, tasks: Sequence[Name]) -> Iterator[Problem]:
        del tasks
        known = dict(self.interaction.outputs(inputs) if self.interaction else inputs.blocks)
        for key in ("domain", "prior"):
            for position, name in enumerate(getattr(self, key)):
                if name not in known:
                    allowed = f"features that reach the model: {', '.join(known)}"
                    yield Problem((key, position), f"no such feature (got '{name}')", allowed)

    def weights(self, inputs: Blocks, tasks: Sequence[Name]) -> Iterator[Weight]:
        yield from self._gate("embeddings", self.domain, inputs, inputs)
        for layer, units in enumerate(self.units):
            yield from self._gate(f"layer_{layer}", self.prior, inputs, tuple((task, units) for task in tasks))
        for task in tasks:
            yield from mlp(f"towers/{task}", inputs, self.units)
        yield from heads(tasks, self.units[-1])

    def _gate(self, name: str, by: Features, inputs: Blocks, outputs: Blocks) -> Iterator[Weight]:
        side = tuple((f"by {feature}", width) for feature, width in inputs if feature in by)
        yield from dense(f"gates/{name}/hidden", (*side, *inputs), self.gate_units)
        yield from dense(f"gates/{name}/gate", self.gate_units, outputs)

    def logits(self, weights: Weights, x_BI: Tensor, inputs: Blocks, tasks: Sequence[Name], noise: Noise) -> Tensor:
        from sangam.parts.layers import Dense, Heads

        def gate(name: str, by: Features, seen_BI: Tensor) -> Tensor:
            x = tf.concat([_features(x_BI, inputs, by), tf.stop_gradient(seen_BI)], axis=1)
            hidden = Dense(f"gates/{name}/hidden", relu=True)(weights, x)
            return 2.0 * tf.sigmoid(Dense(f"gates/{name}/gate", relu=False)(weights, hidden))

        gated_BI = gate("embeddings", self.domain, x_BI) * x_BI
        hidden = [gated_BI] * len(tasks)
        for layer in range(len(self.units)):
            gates = tf.split(gate(f"layer_{layer}", self.prior, gated_BI), len(tasks), axis=1)
            layers = [Dense(f"towers/{task}/{layer}", relu=True, dropout=self.dropout) for task in tasks]
            hidden = [
                gate_BU * dense_layer(weights, hidden_BU, noise)
                for gate_BU, dense_layer, hidden_BU in zip(gates, layers, hidden, strict=True)
            ]
        return Heads(tasks)(weights, hidden)


def _features(x_BI: Tensor, inputs: Blocks, names: Features) -> Tensor:
    """Returns the columns of some features."""
    parts = tf.split(x_BI, [width for _, width in inputs], axis=1)
    return tf.concat([part for (name, _), part in zip(inputs, parts, strict=True) if name in names], axis=1)
