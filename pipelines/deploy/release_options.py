"""The release of a command, from its options."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sangam.pipelines.deploy.release import Release
    from sangam.schemas.spec import Spec

PIPELINE_ROOT, DATA_ROOT = "/sangam/root", "/sangam/data"


@dataclass(frozen=True)
class ReleaseOptions:
    """Images, folders and accounts of the runs: the options as the user gave them."""

    image: str
    trainer_image: str = ""
    experiment: str = ""
    pipeline_root: str = PIPELINE_ROOT
    data_root: str = DATA_ROOT
    service_account: str = ""


Compile = Callable[["Spec", ReleaseOptions], str]


def check_options(spec: "Spec", options: ReleaseOptions) -> None:
    """Checks the options before the server is contacted or anything compiled.

    Raises:
        UserError: an image is not pinned, or a name is invalid.
    """
    # Imported here, so that `sangam --help` stays quick.
    from sangam.pipelines.deploy import names

    names.check_pinned("--image", options.image)
    if options.trainer_image:
        names.check_pinned("--trainer-image", options.trainer_image)
    names.check_images(spec)
    if options.experiment:
        names.check_text("--experiment", options.experiment)
    if options.service_account:
        names.check_text("--service-account", options.service_account)


def make_release(spec: "Spec", options: ReleaseOptions, compile_: Compile) -> "Release":
    """Compiles the spec and returns the release.

    Raises:
        UserError: an image is not pinned, or a name is invalid.
    """
    from sangam.pipelines.deploy import names
    from sangam.pipelines.deploy.release import Release

    check_options(spec, options)
    return Release(
        spec=spec,
        compiled=compile_(spec, options),
        image=options.image,
        trainer_image=options.trainer_image,
        pipeline_root=options.pipeline_root,
        data_root=options.data_root,
        experiment=options.experiment or names.pipeline_name(spec.name),
        service_account=options.service_account or spec.cluster.service_account or "",
    )


def compile_for_kubeflow(spec: "Spec", options: ReleaseOptions) -> str:
    """Returns the pipeline, compiled in another process; loading TFX takes seconds."""
    from sangam.pipelines.kubeflow.apart import compile_apart
    from sangam.pipelines.kubeflow.target import Target
    from sangam.pipelines.provenance import code_folder, git_commit

    target = Target(
        image=options.image,
        trainer_image=options.trainer_image,
        pipeline_root=options.pipeline_root,
        data_root=options.data_root,
        git_commit=git_commit(code_folder()) or "",
    )
    return compile_apart(spec, target)
