"""The parts of a shipped Deployment; a module names its folder of infra/kubernetes as FOLDER."""

import pytest

from tests.security.shipped import Document, by_kind


@pytest.fixture
def manifests(request: pytest.FixtureRequest) -> dict[str, Document]:
    """The documents by kind."""
    return by_kind(request.module.FOLDER)


@pytest.fixture
def pod(manifests: dict[str, Document]) -> Document:
    """The pod's template."""
    template: Document = manifests["Deployment"]["spec"]["template"]
    return template


@pytest.fixture
def container(pod: Document) -> Document:
    """The only container."""
    [only] = pod["spec"]["containers"]
    return dict(only)
