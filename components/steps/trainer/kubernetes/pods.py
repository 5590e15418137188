"""Pods of a training job: unprivileged, without a token, with the resources, nodes and volumes of the spec."""

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

from sangam.components.steps.trainer.kubernetes.run import (
    COORDINATOR_PORT,
    DATA_WORKER_PORT,
    DISPATCHER_PORT,
    RANKER_ANNOTATION,
    Component,
    TrainingRun,
)
from sangam.schemas.quantities import parse_bytes
from sangam.schemas.spec.cluster import Pod

USER = 10001
"""User and group of all processes, as in the images."""
GRACE_S = 10
"""Seconds from SIGTERM to SIGKILL. The slowest pod, a coordinator that waits for its hosts' ranks, ends earlier."""
_PORTS: dict[Component, int] = {
    "dispatcher": DISPATCHER_PORT,
    "data-worker": DATA_WORKER_PORT,
    "coordinator": COORDINATOR_PORT,
}
# Kubeflow's profile namespaces often inject Istio's proxy: with it a Job never ends, and Gloo cannot connect.
_NO_SIDECAR = {"sidecar.istio.io/inject": "false"}
_BINARY_UNITS = (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024), ("G", 1000**3), ("M", 1000**2), ("k", 1000))


def pod_template(
    run: TrainingRun,
    component: Component,
    arguments: Sequence[str],
    *,
    env: Sequence[EnvVar] = (),
    scratch: dict[str, str] | None = None,
) -> PodTemplateSpec:
    """Returns the template of one kind of pods.

    Args:
        run: run of the job.
        component: kind of the pods.
        arguments: arguments of `python -m`.
        env: additional environment variables.
        scratch: additional writable folders that live as long as the pod: volume name to path.
    """
    pod_spec = run.pod_spec(component)
    volumes, mounts = _volumes(run, pod_spec, {"tmp": "/tmp", **(scratch or {})})
    container = Container(
        name=component,
        image=pod_spec.image or run.launch.image,
        command=["python", "-m", *arguments],
        env=[*env, *_environment(pod_spec)],
        ports=_ports(run, component),
        resources=_resources(pod_spec),
        securityContext=SecurityContext(
            allowPrivilegeEscalation=False, capabilities=Capabilities(drop=["ALL"]), readOnlyRootFilesystem=True
        ),
        # After a failure, the end of the log is in the pod's status, where the step reads it.
        terminationMessagePolicy="FallbackToLogsOnError",
        volumeMounts=mounts,
    )
    template_spec = PodSpec(
        affinity=_near_each_other(run),
        automountServiceAccountToken=False,
        containers=[container],
        enableServiceLinks=False,
        nodeSelector=dict(pod_spec.node_pool) or None,
        securityContext=PodSecurityContext(
            fsGroup=USER,
            # Otherwise Kubernetes changes the group of all files of the volume at every start of a pod.
            fsGroupChangePolicy="OnRootMismatch",
            runAsGroup=USER,
            runAsNonRoot=True,
            runAsUser=USER,
            seccompProfile=SeccompProfile(type="RuntimeDefault"),
        ),
        terminationGracePeriodSeconds=GRACE_S,
        tolerations=[
            Toleration(key=each.key, operator=each.operator, value=each.value, effect=each.effect)
            for each in pod_spec.tolerations
        ]
        or None,
        volumes=volumes,
    )
    return PodTemplateSpec(metadata=_metadata(run, component), spec=template_spec)


def _ports(run: TrainingRun, component: Component) -> list[ContainerPort] | None:
    ports = [ContainerPort(name="main", containerPort=_PORTS[component])] if component in _PORTS else []
    # Each has a name: Prometheus makes a target of every declared port, and keeps those with these names.
    ports += [
        ContainerPort(name=f"metrics-{number}", containerPort=port)
        for number, port in enumerate(run.metrics_ports(component))
    ]
    return ports or None


def _metadata(run: TrainingRun, component: Component) -> ObjectMeta:
    labels, ports = run.labels(component) | _NO_SIDECAR, run.metrics_ports(component)
    if not ports:
        return ObjectMeta(labels=labels)
    # Annotations of common Prometheus configurations, which scrape one port of a pod.
    scraped = {"prometheus.io/scrape": "true", "prometheus.io/port": str(ports[0]), "prometheus.io/path": "/metrics"}
    return ObjectMeta(labels=labels, annotations={**scraped, RANKER_ANNOTATION: run.ranker})


def from_field(name: str, path: str) -> EnvVar:
    """Returns an environment variable with a field of the pod itself."""
    return EnvVar(name=name, valueFrom=EnvVarSource(fieldRef=ObjectFieldSelector(fieldPath=path)))


def _environment(pod_spec: Pod) -> list[EnvVar]:
    values = {"HOME": "/tmp", "PYTHONUNBUFFERED": "1", "TF_USE_LEGACY_KERAS": "1", **pod_spec.env}
    secrets = [
        EnvVar(name=name, valueFrom=EnvVarSource(secretKeyRef=SecretKeySelector(name=each.secret, key=each.key)))
        for name, each in pod_spec.secrets.items()
    ]
    return [EnvVar(name=name, value=value) for name, value in values.items()] + secrets


def _resources(pod_spec: Pod) -> ResourceRequirements | None:
    sizes = {"cpu": pod_spec.cpu, "memory": quantity("memory", pod_spec.memory) if pod_spec.memory else None}
    requests = {name: value for name, value in sizes.items() if value}
    # Extended resources cannot be overcommitted: the limit is also the request.
    gpus = {pod_spec.gpu.type: str(pod_spec.gpu.count)} if pod_spec.gpu else {}
    if not (requests or gpus):
        return None
    return ResourceRequirements(limits={**requests, **gpus}, requests=requests or None)


def _volumes(run: TrainingRun, pod_spec: Pod, scratch: dict[str, str]) -> tuple[list[Volume], list[VolumeMount]]:
    shared = quantity("shared_memory", pod_spec.shared_memory) if pod_spec.shared_memory else None
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
    """Prefers pods in one zone: every training step is as slow as the slowest connection between two ranks."""
    term = PodAffinityTerm(
        labelSelector=LabelSelector(matchLabels=run.selector), topologyKey="topology.kubernetes.io/zone"
    )
    near = WeightedPodAffinityTerm(weight=100, podAffinityTerm=term)
    return Affinity(podAffinity=PodAffinity(preferredDuringSchedulingIgnoredDuringExecution=[near]))


def quantity(name: str, size: str) -> str:
    """Returns a size in Kubernetes' notation: `64GiB` is `64Gi`, `64GB` is `64G`."""
    count = parse_bytes(name, size)
    return next((f"{count // unit}{suffix}" for suffix, unit in _BINARY_UNITS if count % unit == 0), str(count))
