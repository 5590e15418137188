"""Artifacts' addresses as Kubeflow gives them, and the folders that stand for them in a container.

A URI stays what the backend made it: its launcher refuses an input artifact whose URI names none of its stores
(https://github.com/kubeflow/pipelines/blob/2.14.3/backend/src/v2/component/launcher_v2.go, fetchNonDefaultBuckets), but
takes it well that there is nothing to download, and that a step left nothing to upload (the same file,
uploadOutputArtifacts). So files lie below the pipeline root, where later runs and other pods see them, under a path
from which the URI can be told again.
"""

import os
from dataclasses import dataclass

from schemas.errors import UserError

FOLDERS = {"gs": "gcs", "minio": "minio", "s3": "s3"}
"""Scheme to folder: the names that Kubeflow's launcher and Vertex AI mount the stores under, below `/`."""
_SCHEMES = {folder: scheme for scheme, folder in FOLDERS.items()}
ARTIFACTS = "artifacts"
"""Below the pipeline root."""


def base_of(pipeline_root: str) -> str:
    """Returns the folder below which artifacts lie: the pipeline root's own, or "" where the root lies in a store.

    On Vertex AI a root such as /gcs/bucket/folder is the mounted store, which keeps what is written there.

    Raises:
        UserError: for anything but an absolute path.
    """
    clean = pipeline_root.rstrip("/")
    if not clean.startswith("/") or clean.startswith("//") or clean != os.path.normpath(clean):
        raise UserError(
            f"pipeline_root: is no folder of this container (got '{pipeline_root}'); give an absolute path on a volume "
            "of cluster.volumes, on Vertex AI /gcs/<bucket>/<folder>"
        )
    return "" if clean.split("/")[1] in _SCHEMES else f"{clean}/{ARTIFACTS}"


@dataclass(frozen=True)
class Places:
    """The one-to-one relation between URIs and paths.

    Attributes:
        base: what `base_of` returned.
    """

    base: str

    def path(self, uri: str) -> str:
        """Returns the path that stands for a URI.

        Raises:
            UserError: for a URI of no known store, or one that would lead out of its folder.
        """
        scheme, _, rest = uri.partition("://")
        if scheme not in FOLDERS or not _is_plain(rest):
            raise UserError(
                f"artifact: has a URI that this step cannot read or write (got '{uri}'); it must be "
                "<store>://<bucket>/<key> with a store of gs, minio, s3, and a key without '.', '..' and empty parts"
            )
        return f"{self.base}/{FOLDERS[scheme]}/{rest}"

    def uri(self, path: str) -> str:
        """Returns the URI that a path stands for; the inverse of `path`.

        Raises:
            UserError: for a path that stands for none.
        """
        inside, _, rest = path.removeprefix(f"{self.base}/").partition("/")
        if not path.startswith(f"{self.base}/") or inside not in _SCHEMES or not _is_plain(rest):
            raise UserError(f"artifact: lies outside of {self.base or '/'} (got '{path}'); a step must not move it")
        return f"{_SCHEMES[inside]}://{rest}"


def _is_plain(rest: str) -> bool:
    parts = rest.split("/")
    return len(parts) > 1 and "\0" not in rest and not {"", ".", ".."} & set(parts)


def run_folder(path: str, task: str) -> tuple[str, str] | None:
    """Returns the folder of the run that a task's output lies in, and the run's id; None where the path tells neither.

    Kubeflow writes <root>/<pipeline>/<run>/<task>/<salt>/<output> (backend/src/v2/driver/driver.go,
    provisionOutputs), Vertex AI <root>/<project>/<job>/<task>_<number>/<output>.
    """
    parts = path.split("/")
    for number in range(len(parts) - 2, 1, -1):
        if parts[number] == task or parts[number].startswith(f"{task}_"):
            return "/".join(parts[:number]), parts[number - 1]
    return None
