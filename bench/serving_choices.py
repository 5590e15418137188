"""What choices of a spec cost when it is served: `python -m bench.serving_choices [CHOICE ...]`.

The demo is trained by `sangam run` on generated logs, once plain and once with each choice. Then a server of each model
answers the same requests of 200 candidates in turn with the plain one's, and times are compared. Two quiet cores.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from ruamel.yaml import YAML

from bench.quality.changes import NULL, merged
from bench.serving import DEMO_CONTEXT, NAME, Bare, request_for, server
from components.server.client import connect
from schemas.contracts.export import RANK

_SPEC = Path("pipelines") / "specs" / "short_video.yaml"
_FIRST_DAY, _DAYS, _LAST_DAY, _ROWS = "2024-03-01", 6, "2024-03-06", 5_000
_CANDIDATES, _REQUESTS, _WARM, _TIMEOUT_S = 200, 2_000, 100, 60
_NUMBERS = ("duration_s", "post_age_h", "author_followers", "network_mbps", "hour")
_TASKS = ("like", "share", "download", "long_watch")
_PLAIN: dict[str, Any] = {
    "data": {"train_days": 4, "validation_days": 1},
    "training": {"epochs": 1, "average": NULL},
    "features": {name: {"normalize": "zscore"} for name in _NUMBERS},
    "gates": [{"task": "like", "metric": "auc", "at_least": 0.5}],
}
_POST, _USER = {"post_id": "int"}, {"user_id": "string"}


def _encoded(kind: str) -> dict[str, Any]:
    return {"features": {name: {"normalize": None, "encoding": {"kind": kind}} for name in _NUMBERS}}


CHOICES: Mapping[str, dict[str, Any]] = {
    "piecewise linear": _encoded("piecewise_linear"),
    "periodic": _encoded("periodic"),
    "rates and counts": {
        "features": {
            "post_like_rate": {"kind": "rate", "task": "like", "by": _POST, "days": 3, "normalize": "zscore"},
            "user_like_rate": {"kind": "rate", "task": "like", "by": _USER, "days": 3, "normalize": "zscore"},
            "post_views": {"kind": "count", "by": _POST, "days": 3, "normalize": "zscore"},
        }
    },
    "calibration: platt": {"tasks": {task: {"calibration": {"kind": "platt"}} for task in _TASKS}},
    "calibration: isotonic": {"tasks": {task: {"calibration": {"kind": "isotonic"}} for task in _TASKS}},
    "average: ema": {"training": {"average": {"kind": "ema"}}},
    "ensemble of 4": {"model": {"ensemble": {"members": 4}}},
    "ensemble of 8": {"model": {"ensemble": {"members": 8}}},
}


def main() -> None:
    """Trains what is not trained yet, and prints a line of JSON for each choice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("choices", nargs="*", choices=[[], *CHOICES], help="all when left out")
    parser.add_argument("--folder", type=Path, default=Path("runs") / "serving_choices")
    options = parser.parse_args()
    folder: Path = options.folder
    _generate(folder / "logs")
    plain = _trained(folder, "plain", {})
    for choice in options.choices or CHOICES:
        print(json.dumps({"choice": choice, **_compared(plain, _trained(folder, choice, CHOICES[choice]))}))


def _generate(logs: Path) -> None:
    if not logs.exists():
        size = ["--days", str(_DAYS), "--rows-per-day", str(_ROWS)]
        _sangam("generate", "--output", str(logs), "--first-day", _FIRST_DAY, *size)


def _trained(folder: Path, choice: str, change: Mapping[str, Any]) -> Path:
    """Returns the model of a choice, trained unless it is there."""
    name = "".join(letter if letter.isalnum() else "_" for letter in choice)
    root = folder / "root"
    versions = root / "serving" / name
    if not versions.exists():
        document = merged(merged(YAML(typ="safe").load(_SPEC.read_text()), _PLAIN), change)
        spec = folder / f"{name}.yaml"
        with spec.open("w") as file:
            YAML(typ="safe").dump(
                {**document, "name": name, "push": {"kind": "directory", "path": f"serving/{name}"}}, file
            )
        _sangam("run", str(spec), "--date", _LAST_DAY, "--data", str(folder / "logs"), "--root", str(root))
    return versions


def _sangam(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pipelines.cli", *arguments], check=True, stdout=subprocess.DEVNULL)


def _compared(*versions: Path) -> dict[str, float]:
    """Returns times of two servers, and the second one's over the first one's."""
    seconds: list[list[float]] = [[] for _ in versions]
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sangam-bench-")))
        senders = [_sender(stack, each, scratch / str(place)) for place, each in enumerate(versions)]
        for number in range(_WARM + _REQUESTS):
            for place, send in enumerate(senders):
                before = time.perf_counter()
                next(send)
                if number >= _WARM:
                    seconds[place].append(time.perf_counter() - before)
    (plain_50, plain_99), (p50, p99) = (np.percentile(np.array(each) * 1e3, (50, 99)) for each in seconds)
    return {
        "plain_p50_ms": round(plain_50, 2),
        "plain_p99_ms": round(plain_99, 2),
        "p50_ratio": round(p50 / plain_50, 2),
        "p99_ratio": round(p99 / plain_99, 2),
    }


def _sender(stack: ExitStack, versions: Path, scratch: Path) -> Iterator[None]:
    scratch.mkdir()
    [model] = (path for path in versions.iterdir() if path.name.isdigit())
    inputs = Bare(model).inputs
    requests = [
        request_for(inputs, context=set(DEMO_CONTEXT.split(",")), candidates=_CANDIDATES, seed=seed)
        for seed in range(8)
    ]
    addresses, _ = stack.enter_context(server(versions, scratch / "server.log"))
    client = stack.enter_context(connect(addresses["grpc"], NAME))

    def send() -> Iterator[None]:
        while True:
            for arrays in requests:
                client.predict(RANK, arrays, _TIMEOUT_S)
                yield

    return send()


if __name__ == "__main__":
    main()
