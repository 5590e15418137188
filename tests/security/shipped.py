"""The manifests that are shipped for a cluster."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.paths import REPOSITORY

KUBERNETES = "1.31"
FOLDER = REPOSITORY / "infra" / "kubernetes"
KUSTOMIZATION = "kustomization.yaml"

Document = dict[str, Any]


def load(path: Path) -> list[Document]:
    """Returns the documents of a file."""
    return [document for document in YAML(typ="safe").load_all(path.read_text()) if document]


def files(folder: str) -> list[Path]:
    """Returns the manifests of a folder of infra/kubernetes."""
    return [path for path in sorted((FOLDER / folder).glob("*.yaml")) if path.name != KUSTOMIZATION]


def by_kind(folder: str) -> dict[str, Document]:
    """Returns the documents of a folder that has one of each kind."""
    documents = [document for path in files(folder) for document in load(path)]
    found = {document["kind"]: document for document in documents}
    assert len(found) == len(documents)
    return found
