"""What a cluster makes of the objects in `tests.fakes.kubernetes_store`: pods, their replacements, conditions and ends.

The rules are those of Kubernetes' StatefulSet and Job controllers, kubeflow/mpi-operator and kubernetes-sigs/jobset, as
far as a training job meets them. `ScriptedKubelet` says how pods are; those of tests/cluster really run.
"""

import threading
import uuid
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

from tests.fakes.kubernetes_store import Object, StatusError, Store, now

COMPONENT = "app.kubernetes.io/component"
MPI = "training.kubeflow.org"
INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass
class Life:
    """What becomes of a pod.

    Attributes:
        says: lines of its log.
        code: of its exit; None: it runs on.
        reason: of the container's exit, or of a pod that was evicted.
        condition: that the pod is given, such as DisruptionTarget.
        waits: why it never starts: a reason and a message.
        does: called when it has started.
    """

    says: tuple[str, ...] = ()
    code: int | None = None
    reason: str = ""
    is_evicted: bool = False
    condition: str = ""
    waits: tuple[str, str] | None = None
    does: Callable[[str], None] | None = None


class ScriptedKubelet:
    """Gives each new pod of a component the next of the lives that a test has written down; then `Life()` for ever."""

    def __init__(self, store: Store, lives: dict[str, list[Life]] | None = None):
        self._store, self.lives = store, lives or {}

    def start(self, pod: Object) -> None:
        name, component = pod["metadata"]["name"], pod["metadata"]["labels"][COMPONENT]
        lives = self.lives.get(component, [])
        life = lives.pop(0) if lives else Life()
        if life.waits:
            reason, message = life.waits
            set_status(self._store, name, waiting(reason, message))
            return
        set_status(self._store, name, running())
        for line in life.says:
            self._store.log(name, line)
        if life.does:
            life.does(name)
        if life.is_evicted:
            evict(self._store, name)
        elif life.code is not None:
            finish(self._store, name, life.code, reason=life.reason, condition=life.condition)


class Controllers:
    """Makes the world what the objects say, whenever one of them changes."""

    def __init__(self, store: Store, kubelet: ScriptedKubelet):
        self._store, self._kubelet = store, kubelet
        self._is_stopped = False
        self._started: set[str] = set()
        self._restarts: dict[str, int] = defaultdict(int)
        self._thread = threading.Thread(target=self._run, name="controllers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopped = True
        with self._store.changed:
            self._store.changed.notify_all()
        self._thread.join(60)

    def _run(self) -> None:
        done = -1
        while not self._is_stopped:
            with self._store.changed:
                version = self._store.version
                if version == done:
                    self._store.changed.wait(0.2)
                    continue
            done = version
            try:
                self._reconcile()
            except StatusError:
                done = -1  # deleted while it was looked at

    def _reconcile(self) -> None:
        store = self._store
        store.collect_garbage()
        for each in store.list("statefulsets"):
            for number in range(each["spec"]["replicas"]):
                self._pod(each, f"{each['metadata']['name']}-{number}", each["spec"]["template"])
        for each in store.list("mpijobs"):
            self._mpijob(each)
        for each in store.list("jobsets"):
            self._jobset(each)
        for each in store.list("jobs"):
            self._job(each)
        for pod in store.list("pods"):
            uid = pod["metadata"]["uid"]
            if uid not in self._started:
                self._started.add(uid)
                self._kubelet.start(pod)

    def _mpijob(self, job: Object) -> None:
        store, name, spec = self._store, job["metadata"]["name"], job["spec"]
        roles, policy = spec["mpiReplicaSpecs"], spec["runPolicy"]
        if job.get("status", {}).get("completionTime"):
            return
        launcher = store.get("jobs", f"{name}-launcher")
        if launcher is None:
            template = with_policy(roles["Launcher"]["template"], roles["Launcher"]["restartPolicy"])
            self._make("jobs", job, f"{name}-launcher", {}, {"template": template, **limits(policy)})
            return
        if launcher["spec"].get("suspend") != policy.get("suspend", False):
            store.merge("jobs", f"{name}-launcher", {"spec": {"suspend": policy.get("suspend", False)}})
        if end := finished(launcher):
            kind = {"Complete": "Succeeded", "Failed": "Failed"}[end["type"]]
            said = {"reason": end.get("reason", f"MPIJob{kind}"), "message": end.get("message", "")}
            set_condition(store, "mpijobs", job, kind, **said)
            store.merge("mpijobs", name, {"status": {"completionTime": now()}})
            for pod in owned(store, "pods", job):
                store.delete("pods", pod["metadata"]["name"])
        elif not policy.get("suspend"):
            for index in range(roles["Worker"]["replicas"]):
                template = with_policy(roles["Worker"]["template"], roles["Worker"]["restartPolicy"])
                self._pod(job, f"{name}-worker-{index}", template, labels={f"{MPI}/replica-index": str(index)})

    def _jobset(self, jobset: Object) -> None:
        store, name, spec = self._store, jobset["metadata"]["name"], jobset["spec"]
        if any(each["status"] == "True" for each in jobset.get("status", {}).get("conditions", [])):
            return
        jobs = {each["metadata"]["name"]: each for each in owned(store, "jobs", jobset)}
        for replicated in spec["replicatedJobs"]:
            child = f"{name}-{replicated['name']}-0"
            if child not in jobs:
                template = {**replicated["template"]["spec"], "suspend": spec.get("suspend", False)}
                self._make("jobs", jobset, child, {}, template)
            elif jobs[child]["spec"].get("suspend") != spec.get("suspend", False):
                store.merge("jobs", child, {"spec": {"suspend": spec.get("suspend", False)}})
        ends = {child: end for child, each in jobs.items() if (end := finished(each))}
        failed = [(child, end) for child, end in ends.items() if end["type"] == "Failed"]
        if failed:
            self._jobset_failed(jobset, *failed[0])
        elif all(f"{name}-{target}-0" in ends for target in spec["successPolicy"]["targetReplicatedJobs"]):
            set_condition(store, "jobsets", jobset, "Completed", reason="AllJobsCompleted", message="")
            self._delete_active(jobset)

    def _jobset_failed(self, jobset: Object, child: str, end: Object) -> None:
        store, policy = self._store, jobset["spec"]["failurePolicy"]
        is_final = any(end["reason"] in rule["onJobFailureReasons"] for rule in policy["rules"])
        restarts = jobset.get("status", {}).get("restarts", 0)
        if not is_final and restarts < policy["maxRestarts"]:
            store.merge("jobsets", jobset["metadata"]["name"], {"status": {"restarts": restarts + 1}})
            for each in owned(store, "jobs", jobset):
                store.delete("jobs", each["metadata"]["name"])
            return
        reason = "FailJobSetFailurePolicyAction" if is_final else "ReachedMaxRestarts"
        message = f"jobset failed (first failed job: {child})"
        set_condition(store, "jobsets", jobset, "Failed", reason=reason, message=message)
        self._delete_active(jobset)

    def _delete_active(self, jobset: Object) -> None:
        for each in owned(self._store, "jobs", jobset):
            if not finished(each):
                self._store.delete("jobs", each["metadata"]["name"])

    def _job(self, job: Object) -> None:
        store, name, spec = self._store, job["metadata"]["name"], job["spec"]
        if finished(job) or spec.get("suspend"):
            return
        pods = owned(store, "pods", job)
        failed = [pod for pod in pods if phase(pod) == "Failed"]
        for pod in failed:
            if action(spec.get("podFailurePolicy", {}), pod) == "FailJob":
                self._fail_job(job, "PodFailurePolicy", "a container ended with a code that no retry mends")
                return
        # Pods that are deleted count as failed, too: they are noted while they are still there.
        lost = [pod for pod in failed if action(spec.get("podFailurePolicy", {}), pod) != "Ignore"]
        if len(lost) > spec.get("backoffLimit", 6):
            self._fail_job(job, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
            return
        wanted = [str(index) for index in range(spec.get("completions", 1))]
        succeeded = {index_of(pod) for pod in pods if phase(pod) == "Succeeded"}
        if succeeded.issuperset(wanted):
            set_condition(store, "jobs", job, "Complete", reason="", message="")
            return
        there = {index_of(pod) for pod in pods if phase(pod) in ("Pending", "Running")} | succeeded
        for index in wanted:
            if index not in there:
                annotations = {INDEX: index}
                self._pod(job, f"{name}-{index}-{uuid.uuid4().hex[:5]}", spec["template"], annotations=annotations)

    def _fail_job(self, job: Object, reason: str, message: str) -> None:
        set_condition(self._store, "jobs", job, "Failed", reason=reason, message=message)
        for pod in owned(self._store, "pods", job):
            if phase(pod) in ("Pending", "Running"):
                self._store.delete("pods", pod["metadata"]["name"])

    def _pod(
        self,
        owner: Object,
        name: str,
        template: Object,
        *,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> None:
        if self._store.get("pods", name) is None:
            meta = {**template.get("metadata", {})}
            meta["labels"] = {**meta.get("labels", {}), **(labels or {})}
            meta["annotations"] = annotations or {}
            self._make("pods", owner, name, meta, template["spec"])

    def _make(self, plural: str, owner: Object, name: str, meta: Object, spec: Object) -> None:
        reference = {"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        kind = {"pods": "Pod", "jobs": "Job"}[plural]
        made = {"kind": kind, "metadata": {**meta, "name": name, "ownerReferences": [reference]}, "spec": spec}
        with self._store.changed:
            if self._store.get_by_uid(owner["metadata"]["uid"]) is not None:
                self._store.create(plural, {**made, "status": {"phase": "Pending"} if plural == "pods" else {}})


def owned(store: Store, plural: str, owner: Object) -> list[Object]:
    uid = owner["metadata"]["uid"]
    return [
        each
        for each in store.list(plural)
        if any(reference["uid"] == uid for reference in each["metadata"].get("ownerReferences", []))
    ]


def limits(policy: Object) -> Object:
    names = ("activeDeadlineSeconds", "backoffLimit", "suspend", "ttlSecondsAfterFinished")
    return {name: policy[name] for name in names if name in policy}


def with_policy(template: Object, policy: str) -> Object:
    return {**template, "spec": {**template["spec"], "restartPolicy": policy}}


def finished(job: Object) -> Object | None:
    conditions = job.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["status"] == "True"), None)


def phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def index_of(pod: Object) -> str:
    return str(pod["metadata"].get("annotations", {}).get(INDEX, "0"))


def action(policy: Object, pod: Object) -> str:
    """Returns what a Job's policy says of a failed pod."""
    status = pod.get("status", {})
    codes = [
        each["state"]["terminated"]["exitCode"]
        for each in status.get("containerStatuses", [])
        if "terminated" in each["state"]
    ]
    true = {each["type"] for each in status.get("conditions", []) if each["status"] == "True"}
    for rule in policy.get("rules", []):
        if any(code in rule.get("onExitCodes", {}).get("values", []) for code in codes):
            return str(rule["action"])
        if any(each["type"] in true for each in rule.get("onPodConditions", [])):
            return str(rule["action"])
    return "Count"


def set_condition(store: Store, plural: str, found: Object, kind: str, *, reason: str, message: str) -> None:
    others = [each for each in found.get("status", {}).get("conditions", []) if each["type"] != kind]
    others = [{**each, "status": "False"} if each["type"] == "Failed" else each for each in others]
    condition = {"type": kind, "status": "True", "reason": reason, "message": message}
    store.merge(plural, found["metadata"]["name"], {"status": {"conditions": [*others, condition]}})


def set_status(store: Store, pod: str, status: Object) -> None:
    """Says how a pod is; it may be gone."""
    with store.changed:
        if store.get("pods", pod) is not None:
            store.merge("pods", pod, {"status": status})


def running() -> Object:
    return {"phase": "Running", "containerStatuses": [_container({"running": {"startedAt": now()}})]}


def waiting(reason: str, message: str) -> Object:
    if reason == "Unschedulable":
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        return {"phase": "Pending", "conditions": [condition]}
    return {"phase": "Pending", "containerStatuses": [_container({"waiting": {"reason": reason, "message": message}})]}


def finish(store: Store, pod: str, code: int, *, reason: str = "", condition: str = "") -> None:
    """Says that a pod's container has ended."""
    tail = "\n".join(line for _, line in store.logs[pod][-5:])
    ended: dict[str, Any] = {"exitCode": code, "reason": reason or ("Error" if code else "Completed")}
    ended |= {"finishedAt": now(), "message": tail if code else ""}
    conditions = [{"type": condition, "status": "True"}] if condition else []
    status = {"phase": "Failed" if code else "Succeeded", "conditions": conditions}
    set_status(store, pod, {**status, "containerStatuses": [_container({"terminated": ended})]})


def evict(store: Store, pod: str) -> None:
    """Says that a pod had to leave its node, and that its MPIJob has failed for that, before anybody can replace it."""
    status = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
    with store.changed:
        set_status(store, pod, {**status, "containerStatuses": []})
        found = store.get("pods", pod)
        for owner in found["metadata"]["ownerReferences"] if found else ():
            if owner["kind"] == "MPIJob" and (job := store.get("mpijobs", owner["name"])):
                set_condition(store, "mpijobs", job, "Failed", reason="MPIJobEvicted", message="workers are evicted")


def _container(state: Object) -> Object:
    # A merge keeps what is not said: a state that is over must be taken back.
    states = {"waiting": None, "running": None, "terminated": None} | state
    kept = {key: value for key, value in states.items() if value is not None}
    return {"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": kept}
