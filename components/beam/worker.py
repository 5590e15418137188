"""Starts one Beam worker, as the boot program of Beam's own image does: `python -m sangam.components.beam.worker`.

It gets the job's options from the engine, compares the submitter's code version with its own, and becomes Beam's
worker. Where they differ, it answers every request of the engine with the reason, so that the job fails with it: if
the worker only ended, the engine would wait.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import grpc
from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc
from google.protobuf import json_format

from sangam.components.beam.code_version import code_version
from sangam.components.beam.options import CODE
from sangam.components.beam.reasons import OTHER_VERSION
from sangam.schemas.host.environment import NO_HTTP_PROXY, keep_off_proxy

_ASK_S = 60.0


class OtherCodeError(Exception):
    """The pool's code differs from the step's."""


def main(arguments: Sequence[str]) -> None:
    """Becomes a worker, or refuses all bundles."""
    parser = argparse.ArgumentParser(prog="python -m sangam.components.beam.worker")
    parser.add_argument("--id", required=True)
    parser.add_argument("--control", required=True)
    parser.add_argument("--logging", required=True)
    parser.add_argument("--provision", required=True)
    given = parser.parse_args(arguments)
    info = _provision(given.provision, given.id)
    options = json_format.MessageToJson(info.pipeline_options)
    if reason := refusal(json.loads(options)):
        print(reason, file=sys.stderr, flush=True)
        _refuse(info.control_endpoint.url or given.control, given.id, reason)
        return
    logs, control = info.logging_endpoint.url or given.logging, info.control_endpoint.url or given.control
    environment = {
        "WORKER_ID": given.id,
        "PIPELINE_OPTIONS": options,
        "SEMI_PERSISTENT_DIRECTORY": os.environ.get("TMPDIR", "/tmp"),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
        "LOGGING_API_SERVICE_DESCRIPTOR": f'url: "{logs}"',
        "CONTROL_API_SERVICE_DESCRIPTOR": f'url: "{control}"',
    }
    # Beam's own channels have no setting for it.
    keep_off_proxy(os.environ, *(endpoint.rpartition(":")[0] for endpoint in (given.provision, logs, control)))
    command = [sys.executable, "-W", "ignore", "-m", "apache_beam.runners.worker.sdk_worker_main"]
    os.execve(sys.executable, command, os.environ | environment)


def refusal(options: dict[str, object]) -> str:
    """Returns why a job with these options cannot run on this code; "" if it can."""
    theirs = next((str(value) for name, value in options.items() if name in (CODE, f"beam:option:{CODE}:v1")), "")
    own = code_version()
    if theirs == own:
        return ""
    return f"worker pool: {OTHER_VERSION} (got {own}, the step has {theirs or 'none'})"


def _provision(endpoint: str, worker: str) -> beam_provision_api_pb2.ProvisionInfo:
    with grpc.insecure_channel(endpoint, options=[NO_HTTP_PROXY]) as channel:
        stub = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        request = beam_provision_api_pb2.GetProvisionInfoRequest()
        return stub.GetProvisionInfo(
            request, metadata=[("worker_id", worker)], timeout=_ASK_S, wait_for_ready=True
        ).info


def _refuse(control: str, worker: str, reason: str) -> None:
    from apache_beam.runners.worker.sdk_worker import SdkHarness

    class Refusing(SdkHarness):
        """Answers every bundle with the error. Beam's own `deferred_exception` ends the worker without an answer."""

        def _request_process_bundle(self, request: Any) -> None:
            def refuse() -> None:
                raise OtherCodeError(reason)

            self._execute(refuse, request)

    Refusing(control, worker_id=worker).run()


if __name__ == "__main__":
    main(sys.argv[1:])
