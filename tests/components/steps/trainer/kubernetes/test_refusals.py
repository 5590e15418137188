"""What a user reads of a request that Kubernetes refuses; the answers are those of a real API server."""

from typing import Any

import httpx
import pytest
from lightkube.core.exceptions import ApiError

from sangam.components.steps.trainer.kubernetes.mpijob import MPIJob
from sangam.components.steps.trainer.kubernetes.refusals import refusal
from tests.errors import tells

ROLE, INSTALL = "infra/kubernetes/base/launcher-role.yaml", "install MPIJob (kubeflow.org/v2beta1)"


def answer(code: int, message: str, **details: str) -> ApiError:
    status: dict[str, Any] = {"kind": "Status", "status": "Failure", "code": code, "message": message}
    return ApiError(status={**status, "details": details})


def of_an_unknown_path() -> httpx.HTTPStatusError:
    """Returns the answer for a kind that is not installed, which is plain text."""
    request = httpx.Request("POST", "https://server/apis/kubeflow.org/v2beta1/namespaces/team-a/mpijobs")
    response = httpx.Response(404, text="404 page not found", request=request)
    return httpx.HTTPStatusError("404 Not Found", request=request, response=response)


MISSING_NAMESPACE = answer(404, 'namespaces "team-a" not found', kind="namespaces", name="team-a")
GONE = answer(404, 'mpijobs.kubeflow.org "m" not found', group="kubeflow.org", kind="mpijobs", name="m")
ANONYMOUS = answer(403, 'mpijobs.kubeflow.org is forbidden: User "system:anonymous" cannot create resource "mpijobs"')


@pytest.mark.parametrize(
    ("error", "value", "told", "not_told"),
    [
        (answer(401, "Unauthorized"), "(got 401: Unauthorized)", "token ... expired ... KUBECONFIG", ROLE),
        (ANONYMOUS, "(got 403: ... system:anonymous", "token is missing", ROLE),
        (answer(403, 'User "step" cannot create'), "(got 403: ... step", ROLE, "token"),
        (MISSING_NAMESPACE, "(got 404: namespaces", "create the namespace team-a", INSTALL),
        (GONE, "(got 404: mpijobs.kubeflow.org", "run the step again", INSTALL),
        (of_an_unknown_path(), "(got 404: 404 Not Found)", INSTALL, "create the namespace"),
        (answer(422, "is invalid"), "(got 422: is invalid)", "version", ROLE),
    ],
)
def test_a_refusal_says_what_is_missing(error: Exception, value: str, told: str, not_told: str) -> None:
    text = refusal(error, "create", MPIJob, "team-a")
    assert tells(text, "training", f"create mpijobs in namespace team-a {value} ... {told}")
    assert not_told not in text
