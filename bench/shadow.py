"""Latency of requests with a version in the shadow over that without: `python -m bench.shadow VERSION`.

Two servers of one pushed version with a log take turns under the same load, as in `bench.request_log`; one has the same
model in the shadow. Each has one core, which also scores in the shadow and writes the log.
"""

import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.request_log import LOAD_CORE, MOST_RATIO, SERVER_CORE, Measured, arguments, take_turns
from sangam.schemas.spec.serving import InShadow, RequestLog

_COUNTS = ("sangam_shadow_seconds_count", "sangam_shadow_seconds_sum", "sangam_shadow_dropped_total")


def main() -> int:
    """Prints the times of both, and their ratio; fails above the goal."""
    parser = arguments(__doc__)
    parser.add_argument("--share", type=float, default=0.2)
    given = parser.parse_args()
    os.sched_setaffinity(0, SERVER_CORE | LOAD_CORE)
    log, shadow = RequestLog(share=given.share), InShadow(share=given.share)
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        without = Measured(given.version, Path(scratch, "without"), stack, log=log)
        beside = Measured(given.version, Path(scratch, "beside"), stack, log=log, shadow=shadow)
        ratios = take_turns([without, beside], rate=given.rate, turns=given.turns, seconds=given.seconds)
        for share, each, ratio in zip((0.0, given.share), (without, beside), ratios, strict=True):
            print(json.dumps({"share": share, "p99_ms": each.p99_ms, "ratio": ratio, "cpu_s": each.spent_s()}))
        print(json.dumps({name: beside.metric(name) for name in _COUNTS}))
    return int(ratios[1] > MOST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
