"""Contradictions in the section `cluster`."""

import re
from collections.abc import Iterator
from typing import get_args

from sangam.schemas.derived.sharing import SMALL
from sangam.schemas.problems import Loc, Problem
from sangam.schemas.spec import Spec
from sangam.schemas.spec.cluster import InputService, LocalLauncher, Pod, PodsLauncher, SpecCluster, Step, StepName
from sangam.schemas.spec.data import DayLogs

_LOOKS_SECRET = re.compile(r"(PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|PRIVATE_?KEY|CREDENTIALS?)(_|$)", re.IGNORECASE)


def cluster_problems(spec: Spec) -> Iterator[Problem]:
    """Yields every mistake of the section."""
    cluster = spec.cluster
    if cluster.heartbeat_timeout_s >= cluster.deadline_s:
        yield Problem(
            ("cluster", "heartbeat_timeout_s"),
            f"has no effect: the deadline comes first (got {cluster.heartbeat_timeout_s})",
            f"less than deadline_s ({cluster.deadline_s})",
        )
    if cluster.input_service is not None:
        yield from _input_service_problems(cluster, cluster.input_service)
    for loc, pod in _pods(spec):
        yield from _pod_problems(loc, pod)
        if isinstance(pod, Step):
            yield from _retry_problems((*loc, "retries"), pod)
    yield from _sharing_problems(spec)
    yield from _volume_problems(spec)
    yield from _wait_problems(spec)
    if isinstance(cluster.launcher, LocalLauncher):
        if cluster.queue is not None:
            yield Problem(
                ("cluster", "queue"),
                f"has no effect: the training is in the step's pod, which waits in no queue (got {cluster.queue})",
                "declare a launcher of kind mpijob or jobset, or remove it",
            )
    else:
        yield from _launcher_problems(spec, cluster.launcher)


def _input_service_problems(cluster: SpecCluster, service: InputService) -> Iterator[Problem]:
    if cluster.data_workers == 0:
        yield Problem(
            ("cluster", "input_service"),
            f"has no effect: data_workers is 0 (got {service.address})",
            "remove it, or set data_workers to the number of workers of the service",
        )
    if service.timeout_s >= cluster.heartbeat_timeout_s:
        yield Problem(
            ("cluster", "input_service", "timeout_s"),
            f"has no effect: heartbeat_timeout_s comes first (got {service.timeout_s})",
            f"less than heartbeat_timeout_s ({cluster.heartbeat_timeout_s})",
        )


def _sharing_problems(spec: Spec) -> Iterator[Problem]:
    """Yields groups of steps that are not consecutive, so that a step of another pod would run between them."""
    order, cluster = get_args(StepName), spec.cluster
    if cluster.share_processes == "auto":
        return
    seen: set[str] = set()
    for number, group in enumerate(cluster.share_processes):
        loc, shown = ("cluster", "share_processes", number), ", ".join(group)
        first = order.index(group[0]) if group else 0
        if (
            len(group) < 2
            or group != order[first : first + len(group)]
            or not any(set(group) <= set(small) for small in SMALL)
        ):
            yield Problem(
                loc,
                f"are not consecutive small steps (got {shown or 'none'})",
                f"two or more consecutive ones of {', or of '.join(', '.join(small) for small in SMALL)}",
            )
        elif twice := sorted(seen & set(group)):
            yield Problem(loc, f"has a step of another group (got {', '.join(twice)})", "name each step once")
        elif different := [step for step in group if cluster.step(step) != cluster.step(group[-1])]:
            yield Problem(
                loc,
                f"differ in their settings (got {different[0]}: not those of {group[-1]})",
                "give the steps of a group equal settings in cluster.steps: they share a pod",
            )
        seen |= set(group)


def _pods(spec: Spec) -> Iterator[tuple[Loc, Pod]]:
    cluster = spec.cluster
    yield ("cluster", "default"), cluster.default
    for name, step in cluster.steps.items():
        yield ("cluster", "steps", name), step
    if not isinstance(cluster.launcher, LocalLauncher):
        for role in ("host", "coordinator", "parameter_server", "data_worker"):
            yield ("cluster", "launcher", role), getattr(cluster.launcher, role)


def _pod_problems(loc: Loc, pod: Pod) -> Iterator[Problem]:
    for name in pod.env:
        if name in pod.secrets:
            yield Problem((*loc, "env", name), "is given twice (also under secrets)", "give it once")
        elif _LOOKS_SECRET.search(name):
            yield Problem(
                (*loc, "env", name),
                "looks like a secret, which must not be in a spec (its value is not shown)",
                f"write secrets: {{{name}: {{secret: <name of the Secret>, key: <its key>}}}}",
            )
    for number, toleration in enumerate(pod.tolerations):
        if (toleration.operator == "Equal") != (toleration.value is not None):
            yield Problem(
                (*loc, "tolerations", number, "value"),
                f"does not fit operator {toleration.operator} (got {toleration.value!r})",
                "give a value with Equal, and none with Exists",
            )


def _retry_problems(loc: Loc, step: Step) -> Iterator[Problem]:
    if step.retries.max_backoff_s < step.retries.backoff_s:
        yield Problem(
            (*loc, "max_backoff_s"),
            f"is less than the first wait (got {step.retries.max_backoff_s})",
            f"at least backoff_s ({step.retries.backoff_s})",
        )


def _volume_problems(spec: Spec) -> Iterator[Problem]:
    volumes = list(spec.cluster.volumes.items())
    for number, (name, volume) in enumerate(volumes):
        for other, before in volumes[:number]:
            if f"{volume.path}/".startswith(f"{before.path}/") or f"{before.path}/".startswith(f"{volume.path}/"):
                yield Problem(
                    ("cluster", "volumes", name, "path"),
                    f"contains volume '{other}', or lies in it (got {volume.path}, {before.path})",
                    "give every volume a folder of its own",
                )


def _wait_problems(spec: Spec) -> Iterator[Problem]:
    timeout_s = spec.cluster.step("example_gen").timeout_s
    if isinstance(spec.logs, DayLogs) and spec.logs.arrival and timeout_s and timeout_s <= spec.logs.arrival.wait_s:
        yield Problem(
            ("data", "arrival", "wait_s"),
            f"exceeds the timeout of example_gen (got {spec.logs.arrival.wait_s}, timeout_s {timeout_s})",
            "shorten the wait, or raise timeout_s of the step",
        )


def _launcher_problems(spec: Spec, launcher: PodsLauncher) -> Iterator[Problem]:
    cluster = spec.cluster
    if cluster.ranks % launcher.ranks_per_host:
        yield Problem(
            ("cluster", "launcher", "ranks_per_host"),
            f"does not divide the ranks (got {launcher.ranks_per_host} for {cluster.ranks})",
            "use a divisor: all hosts have the same number of ranks",
        )
    gpu = launcher.host.gpu
    if gpu is not None and gpu.count < launcher.ranks_per_host:
        yield Problem(
            ("cluster", "launcher", "host", "gpu", "count"),
            f"is less than the ranks of a host (got {gpu.count})",
            f"one per rank: {launcher.ranks_per_host}",
        )
    if cluster.own_data_workers == 0 and launcher.data_worker != Pod():
        why = "data_workers is 0" if cluster.input_service is None else "the training joins input_service"
        yield Problem(("cluster", "launcher", "data_worker"), f"has no effect: {why} (got settings)", "remove it")
    if not spec.num_parameter_servers and launcher.parameter_server != Pod():
        yield Problem(
            ("cluster", "launcher", "parameter_server"),
            f"has no effect: training.sync is {spec.training.sync.kind}, so there are none (got settings)",
            "remove it",
        )
    if not any(not volume.read_only for volume in cluster.volumes.values()):
        yield Problem(
            ("cluster", "volumes"),
            f"hosts share folders (got {len(cluster.volumes)} volumes, none writable, for {launcher.kind})",
            "declare a writable one, with the pipeline root on it",
        )
