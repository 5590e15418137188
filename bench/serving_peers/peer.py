"""A peer, in the environment of bench/peers: `python -m bench.serving_peers.peer NAME FOLDER`.

Each has one thread. The libraries of layers get the input of the dense layers, looked up, encoded and concatenated;
`lookups` gets row numbers of ids and encoded numbers; the trees get their features.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.serving_peers.request_files import read_requests
from bench.serving_peers.worker import Call, refuse_other_scores, take_turns

Predict = Callable[[Any], Any]


def onnxruntime(folder: Path) -> Predict:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(str(folder / "dense.onnx"), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


def openvino(folder: Path) -> Predict:
    import openvino as ov

    # Else it rounds to bfloat16 where the processor has units for it.
    how = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = ov.Core().compile_model(str(folder / "dense.onnx"), "CPU", how)
    return lambda x: compiled([x])[0]


def aot_inductor(folder: Path) -> Predict:
    import torch

    compiled = _compiled(folder / "dense.pt2")
    return lambda x: compiled(torch.from_numpy(x)).numpy()


def lookups(folder: Path) -> Predict:
    compiled = _compiled(folder / "lookups.pt2")
    return lambda inputs: compiled(*inputs).numpy()


def _compiled(file: Path) -> Callable[..., Any]:
    import torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    return torch._inductor.aoti_load_package(str(file))


def read_lookups(folder: Path, candidates: int) -> list[tuple[Any, ...]]:
    """Returns requests of so many candidates as tensors: encoded numbers, row numbers and lengths by feature."""
    import torch

    requests = torch.utils._pytree.tree_map(torch.from_numpy, read_requests(folder / f"lookups-{candidates}.npz"))
    return [(each["floats"]["x"], each["rows"], each.get("lengths", {})) for each in requests]


def lightgbm(folder: Path) -> Predict:
    import lightgbm as lgb

    boosters = [lgb.Booster(model_file=str(file)) for file in sorted(folder.glob("trees-*.txt"))]
    return lambda x: [booster.predict(x, num_threads=1) for booster in boosters]


PEERS: dict[str, Callable[[Path], Predict]] = {
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "aot_inductor": aot_inductor,
    "lookups": lookups,
    "lightgbm": lightgbm,
}


def main(name: str, place: str) -> None:
    """Takes turns, once the scores have been compared with the server's."""
    folder = Path(place)
    predict = PEERS[name](folder)

    def calls(candidates: int) -> Sequence[Call]:
        table = np.load(folder / f"requests-{candidates}.npz")
        if name == "lightgbm":
            return [functools.partial(predict, x) for x in table["trees"]]
        requests = read_lookups(folder, candidates) if name == "lookups" else table["x"]
        for inputs, scores in zip(requests, table["scores"], strict=True):
            refuse_other_scores(name, predict(inputs), scores)
        return [functools.partial(predict, inputs) for inputs in requests]

    take_turns(calls)


if __name__ == "__main__":
    main(*sys.argv[1:])
