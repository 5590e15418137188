"""What is put on the server before anything can run: the pipeline, the version of it, and the experiment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipelines.deploy import names
from pipelines.deploy.api import Api, Launch
from schemas.errors import UserError
from schemas.spec import Spec, digest

Say = Callable[[str], None]


@dataclass(frozen=True)
class Release:
    """A spec, compiled for a place.

    Attributes:
        spec: what was compiled.
        compiled: the pipeline's YAML.
        image: of the steps, pinned.
        trainer_image: of the trainer, pinned; empty: `image`.
        pipeline_root: the parameter.
        data_root: the parameter.
        experiment: name of the experiment that holds the runs.
        service_account: of the runs' pods; empty: the server's default.
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
        """Those of every run; the date is not among them."""
        return {"data_root": self.data_root, "pipeline_root": self.pipeline_root}

    @property
    def description(self) -> str:
        """What people read of the version on the server."""
        trainer = f", trainer {self.trainer_image}" if self.trainer_image else ""
        return f"Spec {digest(self.spec)}, image {self.image}{trainer}."

    def meaning(self) -> dict[str, Any]:
        """Returns what a run's result depends on, apart from its date and the logs."""
        return {
            "spec": digest(self.spec),
            "images": [self.image, self.trainer_image or self.image],
            "parameters": self.parameters,
        }


def publish(api: Api, release: Release, say: Say) -> Launch:
    """Puts on the server what is not there yet, and returns what runs are made of.

    Raises:
        UserError: there is a pipeline of that name that is somebody else's.
    """
    ranker = release.spec.name
    name = names.pipeline_name(ranker)
    pipeline, is_new = api.make_pipeline(name, names.description_of(ranker))
    if pipeline.description != names.description_of(ranker):
        raise UserError(
            f"NAME: the server has a pipeline {name!r} that `sangam deploy` has not made (described as "
            f"{pipeline.description!r}); rename the ranker, or delete that pipeline"
        )
    say(f"pipeline   {name} {'made' if is_new else 'is there'}")
    version, is_new = api.make_version(pipeline.id, release.version_name, release.description, release.compiled)
    say(f"version    {version.name} {'uploaded' if is_new else 'is there'}")
    experiment_id = api.make_experiment(release.experiment)
    return Launch(experiment_id, pipeline.id, version.id, release.parameters, release.service_account)
