"""Stands for TFX's entry point: reads the ExecutorInput, writes outputs, and ends as its parameter `ending` says."""

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sangam.components.kfp_entrypoint import executors
from sangam.components.kfp_entrypoint.members import MEMBERS
from sangam.schemas.errors import UserError


def main(argv: list[str]) -> None:
    """Runs."""
    if MEMBERS in argv:
        executors.run_executor = _run_member
        executors.main(argv[1:])
        return
    asked = json.loads(argv[argv.index("--json_serialized_invocation_args") + 1])
    outputs = {key: found["artifacts"][0] for key, found in asked["outputs"]["artifacts"].items()}
    seen = Path(asked["outputs"]["outputFile"]).with_name("seen.json")
    seen.write_text(json.dumps({"asked": asked, "found": {key: os.listdir(o["uri"]) for key, o in outputs.items()}}))
    for artifact in outputs.values():
        (Path(artifact["uri"]) / "half.txt").write_text("half")
    match asked["inputs"]["parameterValues"].get("ending"):
        case "mistake":
            try:
                raise UserError("data: is wrong (got this); write that")
            except UserError as error:
                raise RuntimeError("wrapped by Beam") from error
        case "error once" if not (once := seen.with_name("once")).exists():
            once.touch()
            raise ValueError("no such thing")
        case "error":
            raise ValueError("no such thing")
        case "logs":
            # As TFX's entry point does.
            logging.getLogger().setLevel(logging.INFO)
            logging.basicConfig(level=logging.INFO)
            logging.getLogger("httpx").info("HTTP Request: GET https://10.0.0.1/api/v1/pods")
            logging.getLogger("anything").info("a line of the step")
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hangs":
            try:
                seen.with_name("hangs").write_text(str(os.getpid()))
                time.sleep(60)
            finally:
                seen.with_name("tidied").touch()
        case "late":
            time.sleep(60)
    written = {key: {"artifacts": [{"uri": artifact["uri"]}]} for key, artifact in outputs.items()}
    Path(asked["outputs"]["outputFile"]).write_text(json.dumps({"artifacts": written}))
    sys.exit(0)


def _run_member(
    ending: str, executor_input: dict[str, Any], _spec: dict[str, Any], _beam: Sequence[str]
) -> dict[str, Any]:
    """Stands for the run of one executor, whose class is an ending."""
    once = Path(executor_input["outputs"]["outputFile"]).with_name("once")
    if ending == "error" or (ending == "error once" and not once.exists()):
        once.touch()
        raise ValueError("no such thing")
    made = {key: found["artifacts"][0] for key, found in executor_input["outputs"]["artifacts"].items()}
    for artifact in made.values():
        (Path(artifact["uri"]) / "whole.txt").write_text("whole")
    return {"artifacts": {key: {"artifacts": [{"uri": artifact["uri"]}]} for key, artifact in made.items()}}


if __name__ == "__main__":
    main(sys.argv)
