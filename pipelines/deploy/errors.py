"""Errors of requests to Kubeflow Pipelines, each one line for the user."""

import re

from sangam.schemas.errors import UserError

LOGIN = (
    "give a token that it accepts with --token-env or --token-file, "
    "for example of `kubectl create token NAME --audience pipelines.kubeflow.org`"
)
_RESOURCES = {"recurringruns": "jobs"}
"""Resources that RBAC rules name differently from the path: a recurring run is a job there
(backend/src/apiserver/common/const.go of kubeflow/pipelines)."""
_LASTING = re.compile(r"data too long for column|value too long for type|\(22[0-9A-Z]{3}\)|SQLSTATE 22", re.IGNORECASE)
"""Database errors for values that the database will never accept: SQL's class 22, data exception."""
_MAX_TEXT = 300


class ApiError(UserError):
    """A request that failed; sending it again does not help."""


class NotFound(ApiError):
    """The server has no such object."""


class Conflict(ApiError):
    """The server has such an object already, or another client is changing it."""


class Transient(ApiError):
    """A request that may succeed when it is sent again.

    Attributes:
        may_have_happened: the server may have executed the request; only the answer is missing or bad.
        wait_s: seconds that the server asked to wait; None without Retry-After.
    """

    def __init__(self, text: str, may_have_happened: bool, wait_s: float | None = None):
        super().__init__(text)
        self.may_have_happened = may_have_happened
        self.wait_s = wait_s


def of_answer(host: str, method: str, path: str, status: int, text: str, wait_s: float | None) -> ApiError:
    """Returns the error for an answer with a status other than 2xx.

    Args:
        host: address of the server, as the user gave it.
        method: method of the request.
        path: path of the request, below the host.
        status: status of the answer.
        text: the server's message.
        wait_s: the answer's Retry-After.
    """
    said = f": {text}" if text else ""
    if 300 <= status < 400:
        return ApiError(f"--host: redirects to a log-in page (got {host}, {status}{said}); {LOGIN}")
    if status == 401:
        return ApiError(f"--host: needs authentication (got {host}, 401{said}); {LOGIN}")
    if status == 403:
        return ApiError(
            f"--host: does not permit you to {permission(method, path)} (got {host}, 403{said}); "
            "ask for a role with this permission, or give another token or --namespace"
        )
    if status == 404:
        return NotFound(f"--host: has no {path} (got {host}, 404{said}); check the address and --namespace")
    if status == 409:
        return Conflict(f"--host: {method} {path} conflicts (got {host}, 409{said}); give the command again")
    if status == 429:
        return Transient(f"--host: is too busy (got {host}, 429{said}); try again later", False, wait_s)
    if status >= 500 and _LASTING.search(text):
        return ApiError(
            f"--host: has no room in its database for {method} {path} (got {host}, {status}{said}); use shorter names. "
            "If it was a recurring run, `kubectl get scheduledworkflows --all-namespaces` may show one that is not in "
            "the database: it is disabled, delete it"
        )
    if status >= 500:
        return Transient(
            f"--host: failed at {method} {path} (got {host}, {status}{said}); look at the log of its pods "
            "(kubectl logs -n kubeflow deploy/ml-pipeline), then give the command again",
            True,
            wait_s,
        )
    return ApiError(f"--host: refuses {method} {path} (got {host}, {status}{said})")


def permission(method: str, path: str) -> str:
    """Returns the permission that a request needs: a verb and a resource of the group pipelines.kubeflow.org."""
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
    """Returns a message of the server as one line, truncated."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT else f"{line[:_MAX_TEXT]}…"
