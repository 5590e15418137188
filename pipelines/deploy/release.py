"""The objects on the server that runs need: the pipeline, its version, and the experiment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sangam.pipelines.deploy import names
from sangam.pipelines.deploy.api import Api, Launch
from sangam.schemas.errors import UserError
from sangam.schemas.spec import Spec, digest

Say = Callable[[str], None]


@dataclass(frozen=True)
class Release:
    """A compiled spec, with images, folders and accounts of its runs.

    Attributes:
        compiled: the pipeline's YAML.
        image: image of the steps, pinned.
        trainer_image: image of the trainer, pinned; empty: `image`.
        experiment: name of the experiment that holds the runs.
        service_account: service account of the runs' pods; empty: the server's default.
    """

    spec: Spec
    compiled: str
    image: str
    trainer_image: str
    pipeline_root: str
    data_root: str
    experiment: str
    service_account: str = ""

    @property
    def version_name(self) -> str:
        """The name of the version on the server."""
        return names.version_name(self.spec, self.compiled)

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of every run, without the date."""
        return {"data_root": self.data_root, "pipeline_root": self.pipeline_root}

    @property
    def description(self) -> str:
        """The description of the version on the server."""
        trainer = f", trainer {self.trainer_image}" if self.trainer_image else ""
        return f"Spec {digest(self.spec)}, image {self.image}{trainer}."

    def meaning(self) -> dict[str, Any]:
        """Returns all that a run's result depends on, except its date and the logs."""
        return {
            "spec": digest(self.spec),
            "images": [self.image, self.trainer_image or self.image],
            "parameters": self.parameters,
        }


def publish(api: Api, release: Release, say: Say) -> Launch:
    """Creates the objects that the server lacks, and returns the settings of runs.

    Raises:
        UserError: the server has a pipeline of that name that Sangam did not create.
    """
    ranker = release.spec.name
    name = names.pipeline_name(ranker)
    pipeline, is_new = api.make_pipeline(name, names.description_of(ranker))
    if pipeline.description != names.description_of(ranker):
        raise UserError(
            f"NAME: the server has a pipeline {name!r} that `sangam deploy` did not create (got description "
            f"{pipeline.description!r}); rename the ranker, or delete that pipeline"
        )
    say(f"pipeline   {name} {'created' if is_new else 'unchanged'}")
    version, is_new = api.make_version(pipeline.id, release.version_name, release.description, release.compiled)
    say(f"version    {version.name} {'uploaded' if is_new else 'unchanged'}")
    experiment_id = api.make_experiment(release.experiment)
    return Launch(experiment_id, pipeline.id, version.id, release.parameters, release.service_account)
