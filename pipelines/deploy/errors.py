"""What a Kubeflow Pipelines server may answer instead of what it was asked for, each as one line for a person."""

import re

from schemas.errors import UserError

LOGIN = (
    "give a token that it accepts with --token-env or --token-file, "
    "for example of `kubectl create token NAME --audience pipelines.kubeflow.org`"
)
_RESOURCES = {"recurringruns": "jobs"}
"""Kubeflow's names for what its RBAC rules are about: a recurring run is a job there
(backend/src/apiserver/common/const.go of kubeflow/pipelines); the others are called as in the path."""
_MAX_TEXT = 300


class ApiError(UserError):
    """A request that failed for good."""


class NotFound(ApiError):
    """There is no such thing on the server."""


class Conflict(ApiError):
    """There is such a thing already, or somebody else changes it."""


class Transient(ApiError):
    """A request that may succeed when it is sent again.

    Attributes:
        may_have_happened: the server may have done what it was asked to; only the answer is missing or bad.
        wait_s: how long the server wants to be left alone, if it has said so.
    """

    def __init__(self, text: str, may_have_happened: bool, wait_s: float | None = None):
        super().__init__(text)
        self.may_have_happened = may_have_happened
        self.wait_s = wait_s


def of_answer(host: str, method: str, path: str, status: int, text: str, wait_s: float | None) -> ApiError:
    """Returns the error for an answer that is none of 2xx.

    Args:
        host: as the user gave it.
        method: of the request.
        path: of the request, below the host.
        status: of the answer.
        text: what the server has said.
        wait_s: the answer's Retry-After.
    """
    said = f": {text}" if text else ""
    if 300 <= status < 400:
        return ApiError(f"--host: wants a person to log in (got {host}, which redirects{said}); {LOGIN}")
    if status == 401:
        return ApiError(f"--host: does not know who is asking (got {host}, 401{said}); {LOGIN}")
    if status == 403:
        return ApiError(
            f"--host: does not allow to {permission(method, path)} (got {host}, 403{said}); "
            "ask for a role with this permission, or give another token or --namespace"
        )
    if status == 404:
        return NotFound(f"--host: has no {path} (got {host}, 404{said}); check the address and --namespace")
    if status == 409:
        return Conflict(f"--host: {method} {path} meets what is there (got {host}, 409{said}); give the command again")
    if status == 429:
        return Transient(f"--host: is too busy (got {host}, 429{said}); try again later", False, wait_s)
    if status >= 500:
        return Transient(
            f"--host: fails at {method} {path} (got {host}, {status}{said}); look into the log of its pods "
            "(kubectl logs -n kubeflow deploy/ml-pipeline), then give the command again",
            True,
            wait_s,
        )
    return ApiError(f"--host: refuses {method} {path} (got {host}, {status}{said})")


def permission(method: str, path: str) -> str:
    """Returns the verb and the resource, in the group pipelines.kubeflow.org, that a request needs."""
    parts = path.split("?")[0].strip("/").split("/")
    kind = parts[2] if len(parts) > 2 else "pipelines"
    action = re.search(r":(\w+)$", path)
    if action:
        verb = action.group(1)
    elif method == "GET":
        verb = "list" if parts[-1] in (kind, "versions") else "get"
    else:
        verb = {"POST": "create", "DELETE": "delete"}.get(method, method.lower())
    return f"{verb} {_RESOURCES.get(kind, kind)}"


def short(text: str) -> str:
    """Returns what a server has said as one line that is not too long."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT else f"{line[:_MAX_TEXT]}…"
