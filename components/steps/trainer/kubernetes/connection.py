"""Connects the step to the API server, with its pod's service account or a kubeconfig."""

import os

import httpx
from lightkube import AsyncClient
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from sangam.components.steps.trainer.kubernetes.api import Api
from sangam.components.steps.trainer.kubernetes.timing import Timing
from sangam.schemas.errors import UserError

NAMESPACE_VARIABLE = "SANGAM_NAMESPACE"
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)


def connect(timing: Timing) -> Api:
    """Returns the API in the namespace of the step's pod, or that of SANGAM_NAMESPACE.

    Raises:
        UserError: if neither is configured.
    """
    try:
        config = KubeConfig.from_env().get()
    except ConfigError as error:
        raise UserError(
            f"training: no Kubernetes cluster is configured (got {error}); run the step in a pod with a service "
            "account and its token mounted, or set KUBECONFIG"
        ) from error
    assert isinstance(config, SingleConfig)
    # lightkube requires a user, even for a server without authentication.
    config = config._replace(user=config.user or User())
    namespace = os.environ.get(NAMESPACE_VARIABLE) or config.namespace
    return Api(AsyncClient(config, namespace=namespace, timeout=_TIMEOUT), timing)
