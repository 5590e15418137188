"""The settings of a step that both backends support: resources, image, environment, retries, caching and command."""

from typing import Any

from sangam.components.kfp_entrypoint.invocation import EXECUTORS, TFX_EXECUTORS
from sangam.pipelines.kubeflow.target import Target
from sangam.schemas.contracts.monitoring import variables
from sangam.schemas.derived.timeouts import pod_timeout_s, timeout_s
from sangam.schemas.quantities import parse_bytes
from sangam.schemas.spec import Spec
from sangam.schemas.spec.cluster import Step, StepName

ENVIRONMENT = {"TF_USE_LEGACY_KERAS": "1"}
"""Variables that every process needs before it imports TensorFlow."""

UNCACHED = frozenset({"example_gen", "evaluator", "infra_validator", "pusher", "reporter"})
"""Steps whose result depends on state outside the pipeline: the date, the log files, the last blessed model, the load
of the machine, the pushed versions, earlier runs. Locally, drivers add this state to the cache key; KFP runs no drivers
and would reuse stale results."""

VERTEX_MAX_S = 3600
"""Vertex AI's limit for `backoffMaxDuration` (pipeline_spec.proto, RetryPolicy)."""


def container(original: dict[str, Any], name: StepName, spec: Spec, target: Target) -> dict[str, Any]:
    """Returns a step's container: TFX's executor, started by Sangam's entry point."""
    assert original["command"] == ["python", "-m", TFX_EXECUTORS]
    step = spec.cluster.step(name)
    resources = _resources(step)
    told = variables(spec.monitoring) if name == "trainer" else {}
    environment = dict(sorted((step.env | ENVIRONMENT | told).items()))
    return {
        **original,
        "image": step.image or (target.trainer_image if name == "trainer" else "") or target.image,
        "command": _entrypoint(name, spec, target),
        "args": ["python", "-m", EXECUTORS, *original["args"]],
        "env": [{"name": variable, "value": value} for variable, value in environment.items()],
        **({"resources": resources} if resources else {}),
    }


def caching(name: str, step: Step) -> dict[str, Any]:
    """Returns the task's caching options."""
    return {} if name in UNCACHED or step.cache is False else {"enableCache": True}


def retry_policy(name: StepName, spec: Spec, target: Target) -> dict[str, Any] | None:
    """Returns the task's retry policy, for pods that are lost; None without retries.

    The step's own process tries again after a failure (`kfp_entrypoint.tries`), so a new pod need not wait. Argo starts
    none later than `backoffMaxDuration` after the start of the first, and gives later ones the rest of it
    (workflow/controller/operator.go, processNodeRetries): it must cover all pods.
    """
    count = spec.cluster.step(name).retries.count
    if count == 0:
        return None
    whole = (count + 1) * pod_timeout_s(spec, name)
    return {
        "maxRetryCount": count,
        "backoffDuration": "1s",
        "backoffFactor": 1.0,
        "backoffMaxDuration": f"{whole if target.flavour == 'kubeflow' else VERTEX_MAX_S}s",
    }


def _entrypoint(name: StepName, spec: Spec, target: Target) -> list[str]:
    command = ["python", "-m", "sangam.components.kfp_entrypoint", "--pipeline", spec.name, "--step", name]
    command += ["--retries", spec.cluster.step(name).retries.model_dump_json()]
    command += ["--timeout-s", str(timeout_s(spec, name))] if target.flavour == "kubeflow" else []
    if spec.alerts:
        command += ["--alerts", spec.alerts.model_dump_json()]
        command += ["--parts", *spec.parts] if spec.parts and not spec.alerts.format.is_ours else []
    return [*command, "--"]


def _resources(step: Step) -> dict[str, Any]:
    """Returns resource limits; Kubernetes uses a limit as the request, too.

    In cores and 10^9 bytes, which every backend reads: older backends and Vertex AI do not know the newer fields with
    quantities.
    """
    resources: dict[str, Any] = {}
    if step.cpu:
        resources["cpuLimit"] = float(step.cpu[:-1]) / 1000 if step.cpu.endswith("m") else float(step.cpu)
    if step.memory:
        resources["memoryLimit"] = parse_bytes("memory", step.memory) / 1e9
    if step.gpu:
        resources["accelerator"] = {"count": step.gpu.count, "type": step.gpu.type}
    return resources
