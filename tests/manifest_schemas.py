"""Strict schemas of what a training job is made of: unknown fields are errors, in built-in and custom kinds alike.

And what a pod may do that it should not.
"""

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema
import kubernetes_validate
import yaml

from tests.paths import SHARED_DATA

KUBERNETES = "1.29"
CRDS = SHARED_DATA / "kubernetes"
MPIJOB_CRD = CRDS / "mpijobs_crd.yaml"

Manifest = dict[str, Any]


def errors(manifest: Manifest) -> list[str]:
    """Returns what is wrong with a manifest."""
    kind = manifest["kind"]
    if kind in ("MPIJob", "JobSet"):
        validator = jsonschema.Draft202012Validator(mpijob_schema() if kind == "MPIJob" else jobset_schema())
        own = [f"{'/'.join(map(str, each.path))}: {each.message}" for each in validator.iter_errors(manifest)]
        return own + [error for part in embedded(manifest) for error in errors(part)]
    try:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    except (kubernetes_validate.ValidationError, kubernetes_validate.InvalidSchemaError) as error:
        return [str(error)]
    return []


def embedded(manifest: Manifest) -> list[Manifest]:
    """Returns the pods and Jobs in a custom kind, as objects of their own: CRDs describe them more loosely."""
    name = {"name": "part"}
    if manifest["kind"] == "MPIJob":
        templates = [role["template"] for role in manifest["spec"]["mpiReplicaSpecs"].values()]
        return [{"apiVersion": "v1", "kind": "Pod", **each, "metadata": each["metadata"] | name} for each in templates]
    jobs = [each["template"] for each in manifest["spec"]["replicatedJobs"]]
    return [{"apiVersion": "batch/v1", "kind": "Job", "metadata": name, **job} for job in jobs]


@cache
def mpijob_schema() -> Manifest:
    """Returns the schema of the operator's own CRD, closed."""
    crd = yaml.safe_load(MPIJOB_CRD.read_text())
    [version] = [each for each in crd["spec"]["versions"] if each["name"] == "v2beta1"]
    schema = closed(copy.deepcopy(version["schema"]["openAPIV3Schema"]))
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


@cache
def jobset_schema() -> Manifest:
    """Returns the schema of the JobSet API's own models, closed."""
    from kubeflow_trainer_api.models.jobset_v1alpha2_job_set import JobsetV1alpha2JobSet

    schema = closed(JobsetV1alpha2JobSet.model_json_schema(by_alias=True))
    # Their generator does not know what a quantity is written as; the embedded Job is checked for it.
    schema["$defs"]["IoK8sApimachineryPkgApiResourceQuantity"] = {"type": ["string", "number"]}
    schema["properties"]["metadata"] = {"type": "object"}
    return schema


def closed(schema: Any) -> Any:
    """Refuses, in place, fields that a schema does not name."""
    if isinstance(schema, dict):
        # "this or nothing" hides what is wrong with this.
        if [each for each in schema.get("anyOf", []) if each == {"type": "null"}] and len(schema["anyOf"]) == 2:
            schema |= next(each for each in schema.pop("anyOf") if each != {"type": "null"})
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
        if schema.pop("x-kubernetes-int-or-string", None):
            schema.pop("anyOf", None)
            schema["type"] = ["integer", "string"]
        for part in schema.values():
            closed(part)
    elif isinstance(schema, list):
        for part in schema:
            closed(part)
    return schema


def pod_specs(node: Any) -> Iterator[Manifest]:
    """Yields every pod's spec within a manifest."""
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        for child in node.values():
            yield from pod_specs(child)
    elif isinstance(node, list):
        for child in node:
            yield from pod_specs(child)


def privileges(spec: Manifest) -> list[str]:
    """Returns what a pod may beyond Pod Security `restricted` and a read-only root."""
    own = spec.get("securityContext", {})
    found = [key for key in ("hostNetwork", "hostPID", "hostIPC") if key in spec]
    found += [key for key in ("runAsNonRoot",) if own.get(key) is not True]
    found += ["seccompProfile"] if own.get("seccompProfile") != {"type": "RuntimeDefault"} else []
    found += ["runAsUser"] if own.get("runAsUser") == 0 else []
    for container in [*spec["containers"], *spec.get("initContainers", [])]:
        context = container.get("securityContext", {})
        wanted = {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        found += [f"{container['name']}: {key}" for key, value in wanted.items() if context.get(key) != value]
        found += [f"{container['name']}: hostPort" for port in container.get("ports", []) if "hostPort" in port]
    found += ["hostPath" for volume in spec.get("volumes", []) if "hostPath" in volume]
    return found
