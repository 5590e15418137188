"""Scores of a pushed model on the GPU against the host: `python -m bench.gpu.serving VERSION OUTPUT.json`."""

import argparse
from pathlib import Path
from typing import Any

import tensorflow as tf

from bench.gpu.timed import spread, timed
from bench.results import table, write
from bench.serving import request_for
from sangam.schemas.contracts.export import RANK

_CANDIDATES = (200, 2_000, 20_000)
_CONTEXT = {"user_id", "language", "tab", "hour", "network_mbps"}
"""The demo's columns of a user: one row for all candidates."""
_WARM_CALLS = 5


def main() -> None:
    """Measures every number of candidates on each device; writes the results and prints their table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", type=Path, help="folder of a pushed version in form stock")
    parser.add_argument("output", type=Path)
    parser.add_argument("--seconds", type=float, default=1.0, help="of measured calls in each setting")
    options = parser.parse_args()
    devices = ["/CPU:0", *(["/GPU:0"] if tf.config.list_physical_devices("GPU") else [])]
    results = []
    for device in devices:
        with tf.device(device):
            model = tf.saved_model.load(str(options.version))
            call = model.signatures[RANK]
            for number in _CANDIDATES:
                results.append(_measured(call, device, number, options.seconds))
    write(options.output, {"results": results})
    print(
        table(("device", "candidates", "p50, ms", "candidates/s"), [list(map(str, each.values())) for each in results])
    )


def _measured(call: Any, device: str, candidates: int, seconds: float) -> dict[str, Any]:
    _, inputs = call.structured_input_signature
    request = request_for(inputs, context=_CONTEXT, candidates=candidates, seed=1)
    arguments = {name: tf.constant(values) for name, values in request.items()}
    took = timed(lambda: [scores.numpy() for scores in call(**arguments).values()], seconds=seconds, warm=_WARM_CALLS)
    median = spread(took)["median_s"]
    return {
        "device": device,
        "candidates": candidates,
        "p50_ms": round(median * 1e3, 2),
        "candidates_per_s": round(candidates / median),
    }


if __name__ == "__main__":
    main()
