"""Makes the peers' models, in the environment of bench/peers: `python -m bench.serving_peers.make_peers FOLDER`."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import torch

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


def _linear(weights: Mapping[str, Any], name: str) -> torch.nn.Linear:
    layer = torch.nn.Linear(*weights[f"{name}/w"].shape)
    layer.weight.data = torch.from_numpy(np.ascontiguousarray(weights[f"{name}/w"].T))
    layer.bias.data = torch.from_numpy(weights[f"{name}/b"])
    return layer


def _mlp(weights: Mapping[str, Any], name: str) -> torch.nn.Sequential:
    count = sum(each.startswith(f"{name}/") and each.endswith("/w") for each in weights)
    layers = [[_linear(weights, f"{name}/{number}"), torch.nn.ReLU()] for number in range(count)]
    return torch.nn.Sequential(*(each for pair in layers for each in pair))


def write_layers(folder: Path, model: torch.nn.Module, x: torch.Tensor) -> None:
    """Writes a model for ONNX Runtime and OpenVINO, and as a library that AOTInductor compiles."""
    names: Any = {"input_names": ["x"], "output_names": ["scores"], "dynamic_axes": {"x": [0], "scores": [0]}}
    torch.onnx.export(model, (x,), str(folder / "dense.onnx"), dynamo=False, **names)
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("candidates")},))
    torch._inductor.aoti_compile_and_package(exported, package_path=str(folder / "dense.pt2"))


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
    model = Mmoe(np.load(folder / "weights.npz"), described["tasks"], described["num_experts"]).eval()
    with torch.no_grad():
        write_layers(folder, model, torch.from_numpy(np.load(folder / "requests-200.npz")["x"][0]))
    write_trees(folder, described["tasks"])


if __name__ == "__main__":
    main(*sys.argv[1:])
