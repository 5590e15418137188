"""Rejects settings of a spec that a backend does not support, when a pipeline is compiled."""

import re
from collections.abc import Iterator
from typing import Any, get_args

from sangam.pipelines.beam import unreachable
from sangam.pipelines.kubeflow.steps import UNCACHED
from sangam.pipelines.kubeflow.target import Target
from sangam.schemas.derived.timeouts import timeout_s
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Spec
from sangam.schemas.spec.beam import BeamStepName, Dataflow, Local, engine_of
from sangam.schemas.spec.cluster import LocalLauncher, Step, StepName

_LABEL = re.compile(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")
_RESERVED = (
    "/gcs",
    "/s3",
    "/minio",
    "/.local",
    "/.cache",
    "/.config",
    "/kfp-launcher",
    "/dev",
    "/tmp",
    "/var",
    "/proc",
)
"""Mount points of KFP or Kubernetes (backend/src/v2/compiler/argocompiler/container.go)."""
_VERTEX_ROOT = re.compile(r"^/gcs/[a-z0-9][a-z0-9._-]{1,220}(/[A-Za-z0-9_.-]+)+$")


def check(spec: Spec, target: Target) -> None:
    """Rejects a spec that the target does not support.

    Raises:
        UserError: every reason, one per line.
    """
    problems = [
        *_keep(spec),
        *_monitoring(spec),
        *_caching(spec),
        *_timeouts(spec, target),
        *_engines(spec, target),
    ]
    problems += _kubeflow(spec, target) if target.flavour == "kubeflow" else _vertex(spec, target)
    if problems:
        raise UserError("\n".join(dict.fromkeys(problems)))


def _steps(spec: Spec) -> Iterator[tuple[str, StepName, Step]]:
    """Yields for every step the path of its settings in the spec, its name, and its settings."""
    for name in get_args(StepName):
        has_own = name in spec.cluster.steps
        yield (f"cluster.steps.{name}" if has_own else "cluster.default"), name, spec.cluster.step(name)


def _place(spec: Spec, name: StepName, field: str) -> str:
    step = spec.cluster.steps.get(name)
    own = step is not None and field in step.model_fields_set
    return f"cluster.steps.{name}.{field}" if own else f"cluster.default.{field}"


def _keep(spec: Spec) -> Iterator[str]:
    if spec.keep is not None:
        got = spec.keep.model_dump_json(exclude_none=True)
        yield f"keep: removes nothing here (got {got}); remove it: the backend has its own rules for its artifacts"


def _monitoring(spec: Spec) -> Iterator[str]:
    if spec.monitoring is not None and isinstance(spec.cluster.launcher, LocalLauncher):
        got = spec.monitoring.model_dump_json()
        yield (
            f"monitoring: it is unreachable here (got {got}, and cluster.launcher of kind local): all processes of the "
            "training listen on loopback of the step's pod; declare a launcher of kind mpijob or jobset, or remove it"
        )


def _caching(spec: Spec) -> Iterator[str]:
    for name, step in spec.cluster.steps.items():
        if step.cache and name in UNCACHED:
            yield (
                f"cluster.steps.{name}.cache: would repeat an old result (got true); what this step does depends on "
                "files, blessed models or load that Kubeflow's cache does not look at: remove it"
            )


def _timeouts(spec: Spec, target: Target) -> Iterator[str]:
    if target.flavour == "vertex":
        return
    timeout_s, deadline_s = spec.cluster.step("trainer").timeout_s, spec.cluster.deadline_s
    if timeout_s is not None and timeout_s <= deadline_s:
        yield (
            f"{_place(spec, 'trainer', 'timeout_s')}: ends the step trainer before cluster.deadline_s can take effect "
            f"(got {timeout_s}); more than {deadline_s} in cluster.steps.trainer.timeout_s, or a shorter deadline_s"
        )


def _engines(spec: Spec, target: Target) -> Iterator[str]:
    for name in get_args(BeamStepName):
        engine = engine_of(spec.beam, name)
        if isinstance(engine, Local):
            continue
        place = f"beam.steps.{name}" if name in spec.beam.steps else "beam"
        most_s = timeout_s(spec, name)
        if target.flavour == "kubeflow" and engine.timeout_s >= most_s:
            yield (
                f"{place}.timeout_s: the pod of {name} is stopped before (got {engine.timeout_s}); less than {most_s}, "
                f"or a larger cluster.steps.{name}.timeout_s"
            )
        if isinstance(engine, Dataflow):
            yield from unreachable(place, {"--data-root": target.data_root, "--pipeline-root": target.pipeline_root})


def _kubeflow(spec: Spec, target: Target) -> Iterator[str]:
    cluster = spec.cluster
    yield from _alerts(spec)
    claims: dict[str, str] = {}
    for key, volume in cluster.volumes.items():
        place = f"cluster.volumes.{key}"
        if volume.claim in claims:
            yield f"{place}.claim: is mounted by '{claims[volume.claim]}' (got {volume.claim}); mount a claim once"
        claims[volume.claim] = key
        if not _LABEL.match(volume.claim):
            yield (
                f"{place}.claim: Kubeflow names the pod's volume after the claim, and a volume's name has no dot and "
                f"at most 63 characters (got {volume.claim}); rename the claim"
            )
        if _inside(volume.path, _RESERVED):
            yield f"{place}.path: something else is mounted there (got {volume.path}); for example /sangam/{key}"
        if volume.read_only and isinstance(cluster.launcher, LocalLauncher):
            yield (
                f"{place}.read_only: has no effect: Kubeflow mounts claims into steps for writing (got true, and no "
                "training job of several pods); remove it, and make the claim itself read-only"
            )
    writable = [volume.path for volume in cluster.volumes.values() if not volume.read_only]
    if not _inside(target.pipeline_root, writable):
        yield (
            f"--pipeline-root: lies on no writable volume of cluster.volumes (got {target.pipeline_root}; volumes: "
            f"{', '.join(writable) or 'none'}); the outputs of a run would be lost with its pods: "
            "declare a volume, for example `volumes: {root: {claim: sangam-root, path: /sangam/root}}`"
        )


def alerts_note(spec: Spec) -> str | None:
    """Returns a note on the part of alerts that cannot be checked here; None without alerts."""
    if spec.alerts is None:
        return None
    secret = spec.cluster.default.secrets.get(spec.alerts.url_env)
    where = f"Secret {secret.secret}, key {secret.key}" if secret else f"the Secret of {spec.alerts.url_env}"
    return f"alerts     {where} must hold an https:// address: the first step of a run checks it, nothing before can"


def parts_note(spec: Spec) -> str | None:
    """Returns a note on the modules that the images must have; None without parts of others."""
    if not spec.parts:
        return None
    return f"parts      the images must have {', '.join(spec.parts)}: docs/parts.md has the two lines of a Dockerfile"


def _alerts(spec: Spec) -> Iterator[str]:
    if spec.alerts is None:
        return
    for _, name, step in _steps(spec):
        missing = [variable for variable in spec.alerts.variables if variable not in step.secrets]
        if missing:
            yield (
                f"{_place(spec, name, 'secrets')}: has not what `alerts` needs (got no {' and no '.join(missing)}); "
                f"{missing[0]}: {{secret: <name of the Secret>, key: <its key>}} for each, also where a step has "
                "secrets of its own"
            )


def _vertex(spec: Spec, target: Target) -> Iterator[str]:
    cluster = spec.cluster
    if not isinstance(cluster.launcher, LocalLauncher):
        yield (
            f"cluster.launcher: Vertex AI starts no pods of Kubernetes (got {cluster.launcher.kind}); `kind: local`, "
            "with the machine's cores and GPUs in cluster.steps.trainer"
        )
    if cluster.queue:
        yield f"cluster.queue: Vertex AI has no queues of Kueue (got {cluster.queue}); remove it"
    if cluster.volumes:
        yield (
            f"cluster.volumes: Vertex AI mounts Cloud Storage alone, at /gcs (got {', '.join(cluster.volumes)}); "
            "remove them"
        )
    if cluster.service_account:
        yield (
            f"cluster.service_account: is a name of Kubernetes (got {cluster.service_account}); give Vertex AI's "
            "account when the job is submitted"
        )
    if spec.alerts:
        yield "alerts: their address and key come from Secrets, which Vertex AI does not know (got alerts); remove it"
    for _, name, step in _steps(spec):
        yield from _vertex_step(spec, name, step)
    if not _VERTEX_ROOT.match(target.pipeline_root):
        yield (
            f"--pipeline-root: is no folder of Cloud Storage (got {target.pipeline_root}); gs://<bucket>/<folder>, or "
            "/gcs/<bucket>/<folder>"
        )
    if not target.data_root.startswith(("/gcs/", "gs://")):
        yield (
            f"--data-root: lies nowhere that Vertex AI's containers see (got {target.data_root}); "
            "/gcs/<bucket>/<folder>, or gs://<bucket>/<folder>"
        )


def _vertex_step(spec: Spec, name: StepName, step: Step) -> Iterator[str]:
    unknown: dict[str, tuple[Any, str]] = {
        "node_pool": (step.node_pool, "has no nodes to choose from"),
        "tolerations": (step.tolerations, "has no nodes with taints"),
        "secrets": (step.secrets, "gives containers no Secrets"),
        "shared_memory": (step.shared_memory, "sets /dev/shm itself"),
        "timeout_s": (step.timeout_s, "knows a timeout of the whole job alone"),
    }
    for field, (value, reason) in unknown.items():
        if value:
            yield f"{_place(spec, name, field)}: Vertex AI {reason} (got a value); remove it"
    if step.gpu and "/" in step.gpu.type:
        yield (
            f"{_place(spec, name, 'gpu')}.type: is a resource of Kubernetes (got {step.gpu.type}); Vertex AI's name of "
            "the accelerator, for example NVIDIA_TESLA_V100"
        )


def _inside(path: str, folders: tuple[str, ...] | list[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder}/") for folder in folders)
