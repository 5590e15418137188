"""What only Kubernetes knows of a step: the second document of a compiled pipeline.

The messages are those of kubernetes_platform/proto/kubernetes_executor_config.proto of kubeflow/pipelines, by the JSON
names of their fields; backend/src/v2/driver/k8s.go puts them into the step's pod. Of two spellings of one thing the
older is written: backends of today still read it, and older ones refuse what they do not know.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from schemas.quantities import parse_bytes
from schemas.spec.cluster import SpecCluster, Step, StepName, Volume

SHARED_MEMORY = "/dev/shm"


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class SecretKeyToEnv(_Message):
    """A key of a Secret, and the variable that it becomes."""

    secret_key: str
    env_var: str


class SecretAsEnv(_Message):
    """A Secret whose keys become variables."""

    secret_name: str
    key_to_env: tuple[SecretKeyToEnv, ...]


class PvcMount(_Message):
    """A PersistentVolumeClaim, by its name, and where it is mounted."""

    constant: str
    mount_path: str


class NodeSelector(_Message):
    """Labels that a node must have."""

    labels: dict[str, str]


class Toleration(_Message):
    """As of a pod."""

    key: str
    operator: str
    value: str | None = None
    effect: str | None = None


class EmptyDirMount(_Message):
    """A folder of the pod's own."""

    volume_name: str
    mount_path: str
    medium: str
    size_limit: str


class ExecutorConfig(_Message):
    """Everything of one executor, `kfp_kubernetes.KubernetesExecutorConfig`."""

    secret_as_env: tuple[SecretAsEnv, ...] = ()
    pvc_mount: tuple[PvcMount, ...] = ()
    node_selector: NodeSelector | None = None
    active_deadline_seconds: int | None = None
    tolerations: tuple[Toleration, ...] = ()
    empty_dir_mounts: tuple[EmptyDirMount, ...] = ()

    def document(self) -> dict[str, Any]:
        """Returns the message as JSON; what says nothing is left out."""
        return self.model_dump(by_alias=True, exclude_defaults=True, mode="json")


def executor_config(step: Step, volumes: dict[str, Volume]) -> ExecutorConfig:
    """Returns what a step's pod is given beside its container."""
    return ExecutorConfig(
        secret_as_env=_secrets(step),
        pvc_mount=tuple(PvcMount(constant=volume.claim, mount_path=volume.path) for volume in volumes.values()),
        node_selector=NodeSelector(labels=step.node_pool) if step.node_pool else None,
        active_deadline_seconds=step.timeout_s,
        tolerations=tuple(Toleration(**toleration.model_dump()) for toleration in step.tolerations),
        empty_dir_mounts=_shared_memory(step),
    )


def platform_document(cluster: SpecCluster, labels: dict[StepName, str]) -> dict[str, Any] | None:
    """Returns the document; None if there is nothing to say.

    Args:
        cluster: section of the spec.
        labels: of the executors, by the names of the steps.
    """
    configs = {
        label: config
        for name, label in labels.items()
        if (config := executor_config(cluster.step(name), cluster.volumes).document())
    }
    if not configs:
        return None
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
