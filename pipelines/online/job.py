"""The training job of online training."""

from pathlib import Path

from sangam.components.registry.checkpoint import FOLDER
from sangam.components.registry.shadow import place_of
from sangam.pipelines.online.base import OnlineBase
from sangam.pipelines.online.request import OnlineRequest
from sangam.schemas.contracts import segments
from sangam.schemas.contracts.export import DESCRIPTION_FILE, read_description
from sangam.schemas.contracts.joining_job import STATUS_FILE
from sangam.schemas.contracts.monitoring import on_this_machine
from sangam.schemas.contracts.training_job import Stream, TrainJob
from sangam.schemas.errors import UserError
from sangam.schemas.spec import RankerSpec, digest
from sangam.schemas.spec.cluster import Cluster
from sangam.schemas.spec.training import Constant
from sangam.trainer_module.checkpoint.folder import published as has_checkpoint

JOINING = "joining"
"""Folder of the joiner, beside the segments."""
_NEVER = 2**31
"""A number of deltas that no training publishes."""


def segments_folder(request: OnlineRequest) -> Path:
    """Returns the folder of joined examples."""
    return request.root.online(request.spec.name) / "examples"


def job_of(request: OnlineRequest, base: OnlineBase) -> TrainJob:
    """Returns the job that trains a base on newer data.

    Raises:
        UserError: the spec's model differs from the base's, or examples after the base's data were removed.
    """
    ranker = request.spec.ranker()
    _refuse_other_model(ranker, base)
    folder = request.root.online(request.spec.name) / "training" / base.lineage
    examples = segments_folder(request)
    return TrainJob(
        ranker=_for_online(ranker),
        spec_digest=digest(ranker),
        transform="in_pool",
        train_files=(),
        transform_graph=base.model.transform_graph_uri,
        model_dir="",
        output_dir=str(folder / "output"),
        final_checkpoint=str(folder / "final"),
        checkpoint_dir=str(folder / "checkpoints"),
        base_checkpoint=str(Path(base.model.checkpoint_uri) / FOLDER),
        base_model=str(base.version),
        log_dir=str(folder / "logs"),
        monitoring=on_this_machine(request.spec.monitoring, request.root.metrics, "sangam-online"),
        stream=Stream(
            segments=str(examples),
            joining=str(request.root.online(request.spec.name) / JOINING / STATUS_FILE),
            first=first_segment(examples, base.learned_until),
            learned_until=base.learned_until,
            versions=str(base.version.parent),
            lineage=base.lineage,
            settings=request.settings,
        ),
    )


def job_in_shadow(request: OnlineRequest, base: OnlineBase) -> TrainJob:
    """Returns the job that trains a version in the shadow.

    It has no metrics and no full versions, which would be live, and skips nothing: the live version has learned it. It
    goes on as that of `job_of` once the version is live.

    Raises:
        UserError: see `job_of`.
    """
    job = job_of(request, base)
    assert job.stream is not None
    settings = request.settings
    sync = settings.sync.model_copy(update={"full_every": _NEVER})
    stream = job.stream.model_copy(update={"settings": settings.model_copy(update={"sync": sync, "lag": "wait"})})
    return job.model_copy(update={"stream": stream, "monitoring": None})


def first_segment(folder: Path, learned_until: int | None) -> int:
    """Returns the first segment with a row that the base has not learned; without one, the next future segment."""
    for number in segments.numbers(folder):
        last_event = segments.read(folder, number).last_event
        if learned_until is None or (last_event is not None and last_event > learned_until):
            return number
    return segments.newest(folder) + 1


def lacks_rows(job: TrainJob) -> bool:
    """Returns whether rows after the base's data may be missing: no remaining segment shows where they begin."""
    assert job.stream is not None
    if has_checkpoint(Path(job.checkpoint_dir)):
        return False
    oldest = next(segments.numbers(Path(job.stream.segments)), 1)
    return oldest > 1 and oldest == job.stream.first


def _for_online(ranker: RankerSpec) -> RankerSpec:
    """Returns the ranker without settings of batch training, and with constant learning rates.

    The job reads its own data, its supervisor restarts it, and the schedule of learning rates has ended.
    """
    cluster = ranker.cluster.model_copy(update={"retries": 0, "data_workers": 0, "input_service": None})
    training = ranker.training.model_copy(update={"schedule": Constant(kind="constant"), "early_stopping": None})
    return ranker.model_copy(update={"cluster": cluster, "training": training})


def _refuse_other_model(ranker: RankerSpec, base: OnlineBase) -> None:
    file = place_of(base.version) / DESCRIPTION_FILE
    try:
        described = read_description(str(file), file.read_bytes())
    except OSError as error:
        raise UserError(
            f"{file}: cannot be read (got {error.strerror}); push the model again, or start from another base"
        ) from error
    if digest(_model_of(described.ranker)) != digest(_model_of(ranker)):
        raise UserError(
            f"--base: version {base.lineage} has another model than the spec (got another digest of its features, "
            "tables, model or training); run the daily pipeline with this spec first, or start with that version's spec"
        )


def _model_of(ranker: RankerSpec) -> RankerSpec:
    """Returns the ranker without where it trains and how often: an incremental training has epochs of its own."""
    training = ranker.training.model_copy(update={"epochs": 1})
    return ranker.model_copy(update={"cluster": Cluster(), "training": training})
