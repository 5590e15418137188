"""The papers' equations in NumPy, one example after another and one expert after another, in float64.

Written from the equations, not from the code that is tested; only the names of the weights are shared.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
W = dict[str, Array]


def relu(x: Array) -> Array:
    return np.where(x > 0, x, 0.0)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max())
    return e / e.sum()


def mlp(w: W, name: str, x: Array, layers: int) -> Array:
    for number in range(layers):
        x = relu(w[f"{name}/{number}/w"].T @ x + w[f"{name}/{number}/b"])
    return x


def parallel(w: W, name: str, networks: Sequence[str], x: Array, layers: int) -> list[Array]:
    """Returns the outputs of MLPs whose first layers lie side by side in one matrix."""
    first, bias = (np.split(w[f"{name}/first/{part}"], len(networks), axis=-1) for part in ("w", "b"))
    return [
        mlp(w, f"{name}/{network}", relu(first[place].T @ x + bias[place]), layers - 1)
        for place, network in enumerate(networks)
    ]


def linear(w: W, name: str, x: Array) -> Array:
    return w[f"{name}/w"].T @ x + w[f"{name}/b"]


def tower(w: W, task: str, x: Array, layers: int) -> float:
    return float(linear(w, f"heads/{task}", mlp(w, f"towers/{task}", x, layers))[0])


def single_task(w: W, x: Array, tasks: Sequence[str], *, layers: int) -> list[float]:
    towers = parallel(w, "towers", tasks, x, layers)
    return [float(linear(w, f"heads/{task}", out)[0]) for task, out in zip(tasks, towers, strict=True)]


def shared_bottom(w: W, x: Array, tasks: Sequence[str], *, bottom_layers: int, layers: int) -> list[float]:
    [bottom] = parallel(w, "bottom", ["0"], x, bottom_layers)
    return [tower(w, task, bottom, layers) for task in tasks]


def mmoe(
    w: W, x: Array, tasks: Sequence[str], *, num_experts: int, expert_layers: int, layers: int, top_k: int | None = None
) -> list[float]:
    experts = parallel(w, "experts", [str(e) for e in range(num_experts)], x, expert_layers)
    logits = []
    for task, gate in zip(tasks, np.split(linear(w, "expert_gates", x), len(tasks)), strict=True):
        kept = np.argsort(-gate)[: top_k or num_experts]
        shares = softmax(gate[kept])
        logits.append(tower(w, task, sum(s * experts[e] for s, e in zip(shares, kept, strict=True)), layers))
    return logits


def ple(
    w: W, x: Array, tasks: Sequence[str], *, levels: int, own: int, shared: int, expert_layers: int, layers: int
) -> list[float]:
    groups = [f"tasks/{task}" for task in tasks]
    seen = dict.fromkeys([*groups, "shared"], x)
    for level in range(levels):
        name, is_last = f"levels/{level}", level == levels - 1
        count = dict.fromkeys(groups, own) | {"shared": shared}
        if level == 0:
            networks = [f"{group}/{number}" for group in count for number in range(count[group])]
            outputs = dict(zip(networks, parallel(w, f"{name}/experts", networks, x, expert_layers), strict=True))
        else:
            outputs = {}
            for group, number in count.items():
                several = [str(e) for e in range(number)]
                of_group = parallel(w, f"{name}/experts/{group}", several, seen[group], expert_layers)
                outputs |= {f"{group}/{e}": out for e, out in enumerate(of_group)}
        chosen = {
            group: [*(f"{group}/{e}" for e in range(own)), *(f"shared/{e}" for e in range(shared))] for group in groups
        }
        if not is_last:
            chosen["shared"] = [f"{group}/{e}" for group in count for e in range(count[group])]
        if level == 0:
            ends = np.cumsum([len(networks) for networks in chosen.values()])[:-1]
            gates = dict(zip(chosen, np.split(linear(w, f"{name}/expert_gates", x), ends), strict=True))
        else:
            gates = {group: linear(w, f"{name}/expert_gates/{group}", seen[group]) for group in chosen}
        seen = {
            group: sum(s * outputs[e] for s, e in zip(softmax(gates[group]), chosen[group], strict=True))
            for group in chosen
        }
    return [tower(w, task, seen[group], layers) for task, group in zip(tasks, groups, strict=True)]


def esmm(w: W, x: Array, chain: Sequence[str], *, layers: int) -> list[float]:
    """Returns probabilities of the steps."""
    conditional = [float(sigmoid(np.array(logit))) for logit in single_task(w, x, chain, layers=layers)]
    return [float(np.prod(conditional[: step + 1])) for step in range(len(chain))]


def aitm(w: W, x: Array, chain: Sequence[str], *, layers: int) -> list[float]:
    towers = parallel(w, "towers", chain, x, layers)
    z, logits = towers[0], []
    for step, task in enumerate(chain):
        if step:
            before = chain[step - 1]
            passed = relu(linear(w, f"transfers/{before}", z))
            h_1, h_2, h_3 = np.split(w[f"attentions/{task}/w"], 3, axis=1)
            both = [passed, towers[step]]
            scores = np.array([(u @ h_2) @ (u @ h_3) / np.sqrt(len(u)) for u in both])
            z = sum(share * (u @ h_1) for share, u in zip(softmax(scores), both, strict=True))
        logits.append(float(linear(w, f"heads/{task}", z)[0]))
    return logits


def cross_full(w: W, x: Array, *, layers: int) -> Array:
    x_0 = x
    for layer in range(layers):
        x = x_0 * linear(w, f"interaction/cross/{layer}", x) + x
    return x


def cross_low_rank(w: W, x: Array, *, layers: int) -> Array:
    x_0 = x
    for layer in range(layers):
        name = f"interaction/cross/{layer}"
        matrix = w[f"{name}/v"] @ w[f"{name}/u"]
        x = x_0 * (matrix.T @ x + w[f"{name}/b"]) + x
    return x


def cross_mixed(w: W, x: Array, *, layers: int, experts: int) -> Array:
    x_0 = x
    for layer in range(layers):
        name = f"interaction/cross/{layer}"
        shares = softmax(linear(w, f"{name}/expert_gate", x))
        total = x
        for e, v in enumerate(np.split(w[f"{name}/v"], experts, axis=1)):
            inner = np.tanh(w[f"{name}/c"][e].T @ np.tanh(v.T @ x))
            total = total + shares[e] * (x_0 * (w[f"{name}/u"][e].T @ inner + w[f"{name}/b"]))
        x = total
    return x


def dlrm(w: W, floats: Array, embeddings: Sequence[Array], *, bottom_layers: int) -> Array:
    vectors = list(embeddings)
    kept = []
    if len(floats):
        hidden = mlp(w, "interaction/bottom", floats, bottom_layers)
        kept = [relu(linear(w, "interaction/bottom/last", hidden))]
        vectors = [*kept, *vectors]
    dots = [vectors[i] @ vectors[j] for i in range(len(vectors)) for j in range(i)]
    return np.concatenate([*kept, np.array(dots)])
