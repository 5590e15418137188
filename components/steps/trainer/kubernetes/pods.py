"""Pods of a training job: unprivileged, without a token, with the declared resources, nodes and volumes."""

from collections.abc import Sequence

from lightkube.models.core_v1 import (
    Affinity,
    Capabilities,
    Container,
    ContainerPort,
    EmptyDirVolumeSource,
    EnvVar,
    EnvVarSource,
    ObjectFieldSelector,
    PersistentVolumeClaimVolumeSource,
    PodAffinity,
    PodAffinityTerm,
    PodSecurityContext,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    SeccompProfile,
    SecretKeySelector,
    SecurityContext,
    Toleration,
    Volume,
    VolumeMount,
    WeightedPodAffinityTerm,
)
from lightkube.models.meta_v1 import LabelSelector, ObjectMeta

from components.steps.trainer.kubernetes.run import (
    COORDINATOR_PORT,
    DATA_WORKER_PORT,
    DISPATCHER_PORT,
    Component,
    TrainingRun,
)
from schemas.quantities import parse_bytes
from schemas.spec.cluster import Pod

USER = 10001
"""Of all processes, and the group of what they write: that of the images."""
_PORTS: dict[Component, int] = {
    "dispatcher": DISPATCHER_PORT,
    "data-worker": DATA_WORKER_PORT,
    "coordinator": COORDINATOR_PORT,
}
# Namespaces of Kubeflow's users often inject Istio's proxy: a Job would never end with it, nor Gloo get through it.
_NO_SIDECAR = {"sidecar.istio.io/inject": "false"}
_BINARY_UNITS = (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024), ("G", 1000**3), ("M", 1000**2), ("k", 1000))


def pod_template(
    run: TrainingRun,
    component: Component,
    arguments: Sequence[str],
    *,
    env: Sequence[EnvVar] = (),
    scratch: dict[str, str] | None = None,
    restart_policy: str | None = None,
) -> PodTemplateSpec:
    """Returns the template of one kind of pods.

    Args:
        run: of the job.
        component: the kind.
        arguments: of `python -m`.
        env: more of the container's environment.
        scratch: more folders that can be written and live as long as the pod: volume name to path.
        restart_policy: of the pod, where whoever makes it does not set its own.
    """
    declared = run.declared(component)
    volumes, mounts = _volumes(run, declared, {"tmp": "/tmp", **(scratch or {})})
    container = Container(
        name=component,
        image=declared.image or run.launch.image,
        command=["python", "-m", *arguments],
        env=[*env, *_environment(declared)],
        ports=[ContainerPort(name="main", containerPort=_PORTS[component])] if component in _PORTS else None,
        resources=_resources(declared),
        securityContext=SecurityContext(
            allowPrivilegeEscalation=False, capabilities=Capabilities(drop=["ALL"]), readOnlyRootFilesystem=True
        ),
        # The end of the log of a container that failed stays in the pod's status, where the step reads it.
        terminationMessagePolicy="FallbackToLogsOnError",
        volumeMounts=mounts,
    )
    spec = PodSpec(
        affinity=_near_each_other(run),
        automountServiceAccountToken=False,
        containers=[container],
        enableServiceLinks=False,
        nodeSelector=dict(declared.node_pool) or None,
        restartPolicy=restart_policy,
        securityContext=PodSecurityContext(
            fsGroup=USER,
            # Otherwise Kubernetes walks through the whole volume at every start of a pod.
            fsGroupChangePolicy="OnRootMismatch",
            runAsGroup=USER,
            runAsNonRoot=True,
            runAsUser=USER,
            seccompProfile=SeccompProfile(type="RuntimeDefault"),
        ),
        tolerations=[
            Toleration(key=each.key, operator=each.operator, value=each.value, effect=each.effect)
            for each in declared.tolerations
        ]
        or None,
        volumes=volumes,
    )
    return PodTemplateSpec(metadata=ObjectMeta(labels=run.labels(component) | _NO_SIDECAR), spec=spec)


def from_field(name: str, path: str) -> EnvVar:
    """Returns an environment variable that holds a field of the pod itself."""
    return EnvVar(name=name, valueFrom=EnvVarSource(fieldRef=ObjectFieldSelector(fieldPath=path)))


def _environment(declared: Pod) -> list[EnvVar]:
    values = {"HOME": "/tmp", "PYTHONUNBUFFERED": "1", "TF_USE_LEGACY_KERAS": "1", **declared.env}
    secrets = [
        EnvVar(name=name, valueFrom=EnvVarSource(secretKeyRef=SecretKeySelector(name=each.secret, key=each.key)))
        for name, each in declared.secrets.items()
    ]
    return [EnvVar(name=name, value=value) for name, value in values.items()] + secrets


def _resources(declared: Pod) -> ResourceRequirements | None:
    own = {"cpu": declared.cpu, "memory": quantity("memory", declared.memory) if declared.memory else None}
    given = {name: value for name, value in own.items() if value}
    # Extended resources cannot be overcommitted: a limit is the request.
    gpus = {declared.gpu.type: str(declared.gpu.count)} if declared.gpu else {}
    if not (given or gpus):
        return None
    return ResourceRequirements(limits={**given, **gpus}, requests=given or None)


def _volumes(run: TrainingRun, declared: Pod, scratch: dict[str, str]) -> tuple[list[Volume], list[VolumeMount]]:
    shared = quantity("shared_memory", declared.shared_memory) if declared.shared_memory else None
    volumes = [Volume(name=name, emptyDir=EmptyDirVolumeSource()) for name in scratch]
    volumes.append(Volume(name="shm", emptyDir=EmptyDirVolumeSource(medium="Memory", sizeLimit=shared)))
    mounts = [VolumeMount(name=name, mountPath=path) for name, path in (scratch | {"shm": "/dev/shm"}).items()]
    for number, volume in enumerate(run.launch.volumes.values()):
        read_only = True if volume.read_only else None
        claim = PersistentVolumeClaimVolumeSource(claimName=volume.claim, readOnly=read_only)
        volumes.append(Volume(name=f"volume-{number}", persistentVolumeClaim=claim))
        mounts.append(VolumeMount(name=f"volume-{number}", mountPath=volume.path, readOnly=read_only))
    return volumes, mounts


def _near_each_other(run: TrainingRun) -> Affinity:
    """Every step of training is as slow as the longest way between two ranks: one zone if there is room in one."""
    term = PodAffinityTerm(
        labelSelector=LabelSelector(matchLabels=run.selector), topologyKey="topology.kubernetes.io/zone"
    )
    near = WeightedPodAffinityTerm(weight=100, podAffinityTerm=term)
    return Affinity(podAffinity=PodAffinity(preferredDuringSchedulingIgnoredDuringExecution=[near]))


def quantity(name: str, size: str) -> str:
    """Returns a declared size as Kubernetes writes it: `64GiB` is `64Gi`, `64GB` is `64G`."""
    count = parse_bytes(name, size)
    return next((f"{count // unit}{suffix}" for suffix, unit in _BINARY_UNITS if count % unit == 0), str(count))
