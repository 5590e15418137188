"""The settings of steps that only Kubernetes supports: the second document of a compiled pipeline.

The messages are those of kubernetes_platform/proto/kubernetes_executor_config.proto of kubeflow/pipelines, with the
JSON names of their fields; backend/src/v2/driver/k8s.go applies them to the step's pod. Where a field has two
spellings, the older is written: current backends still read it, and older ones reject unknown fields.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from sangam.schemas.derived.timeouts import pod_timeout_s
from sangam.schemas.quantities import parse_bytes
from sangam.schemas.spec import Spec
from sangam.schemas.spec.cluster import Step, StepName

SHARED_MEMORY = "/dev/shm"


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class SecretKeyToEnv(_Message):
    """A key of a Secret, and the environment variable with its value."""

    secret_key: str
    env_var: str


class SecretAsEnv(_Message):
    """A Secret whose keys become environment variables."""

    secret_name: str
    key_to_env: tuple[SecretKeyToEnv, ...]


class PvcMount(_Message):
    """The name of a PersistentVolumeClaim, and its mount path."""

    constant: str
    mount_path: str


class NodeSelector(_Message):
    """Labels that the pod's node must have."""

    labels: dict[str, str]


class Toleration(_Message):
    """A toleration of a pod."""

    key: str
    operator: str
    value: str | None = None
    effect: str | None = None


class EmptyDirMount(_Message):
    """An emptyDir volume of the pod."""

    volume_name: str
    mount_path: str
    medium: str
    size_limit: str


class ExecutorConfig(_Message):
    """All settings of one executor, `kfp_kubernetes.KubernetesExecutorConfig`."""

    secret_as_env: tuple[SecretAsEnv, ...] = ()
    pvc_mount: tuple[PvcMount, ...] = ()
    node_selector: NodeSelector | None = None
    active_deadline_seconds: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    empty_dir_mounts: tuple[EmptyDirMount, ...] = ()

    def document(self) -> dict[str, Any]:
        """Returns the message as JSON, without empty fields."""
        return self.model_dump(by_alias=True, exclude_defaults=True, mode="json")


def executor_config(name: StepName, spec: Spec) -> ExecutorConfig:
    """Returns the settings of a step's pod outside its container."""
    step, volumes = spec.cluster.step(name), spec.cluster.volumes
    return ExecutorConfig(
        secret_as_env=_secrets(step),
        pvc_mount=tuple(PvcMount(constant=volume.claim, mount_path=volume.path) for volume in volumes.values()),
        node_selector=NodeSelector(labels=step.node_pool) if step.node_pool else None,
        active_deadline_seconds=pod_timeout_s(spec, name),
        tolerations=tuple(Toleration(**toleration.model_dump()) for toleration in step.tolerations),
        empty_dir_mounts=_shared_memory(step),
    )


def platform_document(spec: Spec, labels: dict[StepName, str]) -> dict[str, Any]:
    """Returns the platform document.

    Args:
        spec: spec of the ranker.
        labels: labels of the executors, by the names of the steps.
    """
    configs = {label: executor_config(name, spec).document() for name, label in labels.items()}
    return {"platforms": {"kubernetes": {"deploymentSpec": {"executors": configs}}}}


def _secrets(step: Step) -> tuple[SecretAsEnv, ...]:
    names = sorted({secret.secret for secret in step.secrets.values()})
    return tuple(
        SecretAsEnv(
            secret_name=name,
            key_to_env=tuple(
                SecretKeyToEnv(secret_key=secret.key, env_var=variable)
                for variable, secret in sorted(step.secrets.items())
                if secret.secret == name
            ),
        )
        for name in names
    )


def _shared_memory(step: Step) -> tuple[EmptyDirMount, ...]:
    if step.shared_memory is None:
        return ()
    size = parse_bytes("shared_memory", step.shared_memory)
    return (
        EmptyDirMount(volume_name="shared-memory", mount_path=SHARED_MEMORY, medium="Memory", size_limit=str(size)),
    )
