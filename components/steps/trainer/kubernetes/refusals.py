"""Explains permanent refusals of the Kubernetes API, with remedies."""

import httpx
from lightkube.core.exceptions import ApiError
from lightkube.core.resource import NamespacedResourceG

_ROLE = "infra/kubernetes/base/launcher-role.yaml"
_ANONYMOUS = "system:anonymous"


def code_of(error: Exception) -> int | None:
    """Returns the HTTP code of a failed request, None if there was no response."""
    if isinstance(error, ApiError) and error.status.code:
        return int(error.status.code)
    return error.response.status_code if isinstance(error, httpx.HTTPStatusError) else None


def refusal(error: Exception, verb: str, resource: type[NamespacedResourceG], namespace: str) -> str:
    """Returns the error text for a request that would fail again.

    Args:
        error: error with an HTTP code.
        verb: verb of the request.
        resource: kind of the object.
        namespace: namespace of the request.
    """
    code = code_of(error)
    what = f"{verb} {resource._api_info.plural} in namespace {namespace}"
    got = f"(got {code}: {error})"
    # A server that accepts requests without a token answers 403.
    match 401 if code == 403 and _ANONYMOUS in str(error) else code:
        case 401:
            return (
                f"training: the Kubernetes API does not accept the step's token, so it cannot {what} {got}; the token "
                "is missing, has expired or is another cluster's: mount the one of the pod's service account "
                "(automountServiceAccountToken), or log in again to renew the one in KUBECONFIG"
            )
        case 403:
            return f"training: the step's service account may not {what} {got}; bind the Role of {_ROLE} to it there"
        case 404:
            return f"training: cannot {what} {got}; {_absent(error, resource, namespace)}"
        case _:
            return f"training: the Kubernetes API refuses to {what} {got}; its version must support the objects"


def _absent(error: Exception, resource: type[NamespacedResourceG], namespace: str) -> str:
    """Returns the remedy for a 404: only one about a namespace or an object names it in its details."""
    details = error.status.details if isinstance(error, ApiError) else None
    if details and details.kind == "namespaces":
        return f"create the namespace {namespace}, or correct SANGAM_NAMESPACE or the namespace in KUBECONFIG"
    if details and details.name:
        return "another client deleted it: run the step again, which resumes"
    definition = resource._api_info.resource
    return f"install {definition.kind} ({definition.api_version}) in the cluster"
