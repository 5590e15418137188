"""The pods that Kubeflow Pipelines makes of a compiled pipeline's tasks; order and inputs are fake_backend.py's.

A pod is what KFP 2.16's compiler (backend/src/v2/compiler/argocompiler: container.go, security_context.go) and driver
(backend/src/v2/driver: driver.go, k8s.go) make together, less Argo's sidecar and the launcher's own arguments.
"""

from typing import Any

from tests.pipelines.kubeflow.fake_backend import Task

COMPONENT_LABEL, RUN_LABEL = "pipelines.kubeflow.org/v2_component", "pipeline/runid"
CONTAINER = "main"
_SCRATCH = {
    "gcs-scratch": "/gcs",
    "s3-scratch": "/s3",
    "minio-scratch": "/minio",
    "dot-local-scratch": "/.local",
    "dot-cache-scratch": "/.cache",
    "dot-config-scratch": "/.config",
}
_LAUNCHER = "kfp-launcher"

Manifest = dict[str, Any]


def pod(
    task: Task, command: list[str], *, name: str, namespace: str, run_id: str, account: str, launcher: tuple[str, str]
) -> Manifest:
    """Returns the pod of one attempt at a task.

    Args:
        task: of the DAG.
        command: its words, with the placeholders filled in.
        name: of the pod.
        namespace: of the run.
        run_id: of the run.
        account: service account of the run.
        launcher: claim and folder for the file of outputs, which KFP's launcher keeps in an emptyDir and reads itself.
    """
    volumes, mounts = _volumes(task, *launcher)
    platform = task.platform
    limited: dict[str, Any] = {
        "activeDeadlineSeconds": platform.get("activeDeadlineSeconds"),
        "nodeSelector": platform.get("nodeSelector", {}).get("labels"),
        "tolerations": platform.get("tolerations"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {COMPONENT_LABEL: "true", RUN_LABEL: run_id},
        },
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": account,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            **{key: value for key, value in limited.items() if value is not None},
            "containers": [
                {
                    "name": CONTAINER,
                    "image": task.container["image"],
                    "command": command,
                    "env": _environment(task),
                    "resources": _resources(task),
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "runAsNonRoot": True,
                        "capabilities": {"drop": ["ALL"]},
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "volumeMounts": mounts,
                }
            ],
            "volumes": volumes,
        },
    }


def _volumes(task: Task, claim: str, folder: str) -> tuple[list[Manifest], list[Manifest]]:
    """Returns the volumes of a pod and where they are mounted: KFP's own, and those of the file."""
    volumes: list[Manifest] = [{"name": name, "emptyDir": {}} for name in _SCRATCH]
    mounts: list[Manifest] = [{"name": name, "mountPath": path} for name, path in _SCRATCH.items()]
    volumes.append({"name": _LAUNCHER, "persistentVolumeClaim": {"claimName": claim}})
    mounts.append({"name": _LAUNCHER, "mountPath": folder})
    for mount in task.platform.get("pvcMount", []):
        # The driver names the volume after the claim, and mounts it for writing.
        volumes.append({"name": mount["constant"], "persistentVolumeClaim": {"claimName": mount["constant"]}})
        mounts.append({"name": mount["constant"], "mountPath": mount["mountPath"]})
    for mount in task.platform.get("emptyDirMounts", []):
        medium = {"medium": mount["medium"], "sizeLimit": mount["sizeLimit"]}
        volumes.append({"name": mount["volumeName"], "emptyDir": medium})
        mounts.append({"name": mount["volumeName"], "mountPath": mount["mountPath"]})
    return volumes, mounts


def _environment(task: Task) -> list[Manifest]:
    plain = [{"name": entry["name"], "value": entry["value"]} for entry in task.container.get("env", [])]
    return plain + [
        {
            "name": key["envVar"],
            "valueFrom": {"secretKeyRef": {"name": secret["secretName"], "key": key["secretKey"]}},
        }
        for secret in task.platform.get("secretAsEnv", [])
        for key in secret["keyToEnv"]
    ]


def _resources(task: Task) -> Manifest:
    """Returns limits alone, in the driver's spelling of the older fields: cores, and 10^9 bytes."""
    given = task.container.get("resources", {})
    limits: dict[str, str] = {}
    if cores := given.get("cpuLimit"):
        limits["cpu"] = f"{cores:g}"
    if gigabytes := given.get("memoryLimit"):
        limits["memory"] = f"{gigabytes:.9f}".rstrip("0").rstrip(".") + "G"
    if accelerator := given.get("accelerator"):
        limits[accelerator["type"]] = str(accelerator["count"])
    return {"limits": limits} if limits else {}
