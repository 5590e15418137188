"""Makes the peers' models, in the environment of bench/peers: `python -m bench.serving_peers.make_peers FOLDER`."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import torch

from bench.serving_peers.peer import read_lookups

_TREES, _LEAVES = 500, 63


class Mmoe(torch.nn.Module):
    """A mixture of experts with the weights of a ranker of the pipeline, by their names there."""

    def __init__(self, weights: Mapping[str, Any], tasks: Sequence[str], num_experts: int):
        super().__init__()
        self._num_tasks, self._num_experts = len(tasks), num_experts
        self._first, self._gates = _linear(weights, "experts/first"), _linear(weights, "expert_gates")
        self._experts = torch.nn.ModuleList(_mlp(weights, f"experts/{number}") for number in range(num_experts))
        self._towers = torch.nn.ModuleList(
            torch.nn.Sequential(_mlp(weights, f"towers/{task}"), _linear(weights, f"heads/{task}")) for task in tasks
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = torch.relu(self._first(x)).chunk(self._num_experts, 1)
        experts = torch.stack([expert(each) for expert, each in zip(self._experts, first, strict=True)], 1)
        gates = self._gates(x).reshape(-1, self._num_tasks, self._num_experts)
        mixtures = torch.matmul(torch.softmax(gates, -1), experts).unbind(1)
        logits = [tower(mixture) for tower, mixture in zip(self._towers, mixtures, strict=True)]
        return torch.sigmoid(torch.cat(logits, 1))


class Lookups(torch.nn.Module):
    """Looks up and pools what a ranker does, given row numbers and encoded numbers, and computes its layers."""

    def __init__(self, layers: Mmoe, folder: Path, parts: Sequence[tuple[str, str, str]]):
        super().__init__()
        self._layers, self._parts = layers, parts
        for group, rows in np.load(folder / "tables.npz").items():
            self.register_buffer(group, torch.from_numpy(rows))
        weights = np.load(folder / "weights.npz")
        for _, kind, feature in parts:
            if kind == "positional":
                logits = weights[f"encoders/{feature}/positions"]
                self.register_buffer(f"{feature}_weights", torch.from_numpy(np.exp(logits - logits.max())))

    def forward(
        self, floats: torch.Tensor, rows: dict[str, torch.Tensor], lengths: dict[str, torch.Tensor]
    ) -> torch.Tensor:
        columns = [floats]
        for group, kind, feature in self._parts:
            vectors = torch.nn.functional.embedding(rows[feature], self.get_buffer(group))
            if kind != "id":
                weights = (torch.arange(vectors.shape[1]) < lengths[feature][:, None]).to(torch.float32)
                if kind == "positional":
                    weights = weights * self.get_buffer(f"{feature}_weights")
                total = weights.sum(1, keepdim=True).clamp(min=1e-30)
                vectors = torch.bmm(weights[:, None], vectors)[:, 0] / total
            columns.append(vectors.expand(floats.shape[0], -1) if vectors.shape[0] == 1 else vectors)
        return self._layers(torch.cat(columns, 1))


def _linear(weights: Mapping[str, Any], name: str) -> torch.nn.Linear:
    layer = torch.nn.Linear(*weights[f"{name}/w"].shape)
    layer.weight.data = torch.from_numpy(np.ascontiguousarray(weights[f"{name}/w"].T))
    layer.bias.data = torch.from_numpy(weights[f"{name}/b"])
    return layer


def _mlp(weights: Mapping[str, Any], name: str) -> torch.nn.Sequential:
    count = sum(each.startswith(f"{name}/") and each.endswith("/w") for each in weights)
    layers = [[_linear(weights, f"{name}/{number}"), torch.nn.ReLU()] for number in range(count)]
    return torch.nn.Sequential(*(each for pair in layers for each in pair))


def write_layers(folder: Path, layers: torch.nn.Module, x: torch.Tensor) -> None:
    """Writes the layers for ONNX Runtime and OpenVINO, and as a library that AOTInductor compiles."""
    names: Any = {"input_names": ["x"], "output_names": ["scores"], "dynamic_axes": {"x": [0], "scores": [0]}}
    torch.onnx.export(layers, (x,), str(folder / "dense.onnx"), dynamo=False, **names)
    _compile(layers, (x,), folder / "dense.pt2")


def _compile(model: torch.nn.Module, inputs: tuple[Any, ...], file: Path) -> None:
    """Compiles a model for any number of candidates; `inputs` are those of a request."""
    candidates, count = torch.export.Dim("candidates"), len(inputs[0])
    shapes = torch.utils._pytree.tree_map(lambda each: {0: candidates} if len(each) == count else {}, inputs)
    exported = torch.export.export(model, inputs, dynamic_shapes=shapes)
    torch._inductor.aoti_compile_and_package(exported, package_path=str(file))


def write_trees(folder: Path, tasks: Sequence[str]) -> None:
    """Trains trees for each task, and writes them and their scores of the day to evaluate."""
    table = np.load(folder / "trees.npz")
    how = {"objective": "binary", "num_leaves": _LEAVES, "learning_rate": 0.02, "min_data_in_leaf": 100}
    scores = []
    for number, task in enumerate(tasks):
        train = lgb.Dataset(
            table["train"], table["labels"][:, number], categorical_feature=table["categories"].tolist()
        )
        booster = lgb.train({**how, "verbosity": -1, "num_threads": 2, "seed": 1}, train, _TREES)
        booster.save_model(str(folder / f"trees-{number}-{task}.txt"))
        scores.append(booster.predict(table["evaluation"], num_threads=1))
    np.save(folder / "trees-scores.npy", np.stack(scores, 1))


def main(place: str) -> None:
    """Writes all models."""
    folder = Path(place)
    described = json.loads((folder / "model.json").read_text())
    layers = Mmoe(np.load(folder / "weights.npz"), described["tasks"], described["num_experts"]).eval()
    with torch.no_grad():
        write_layers(folder, layers, torch.from_numpy(np.load(folder / "requests-200.npz")["x"][0]))
        _compile(Lookups(layers, folder, described["parts"]), read_lookups(folder, 200)[0], folder / "lookups.pt2")
    write_trees(folder, described["tasks"])


if __name__ == "__main__":
    main(*sys.argv[1:])
