"""The training of the version in the shadow: on the segments of the live one's, so that both are compared as fresh."""

from collections.abc import Callable

from sangam.components.registry import versions
from sangam.pipelines.online.base import OnlineBase
from sangam.pipelines.online.job import job_in_shadow, lacks_rows
from sangam.pipelines.online.request import OnlineRequest
from sangam.pipelines.online.training import Training
from sangam.schemas.contracts import deltas
from sangam.schemas.contracts.training_job import TrainJob
from sangam.schemas.derived.online import trains_shadow
from sangam.schemas.errors import UserError


class ShadowTraining:
    """Trains the version that waits, where the spec says so; a failure leaves the live one's training alone.

    Attributes:
        lineage: the version that waits, also if it cannot be trained; empty: none.
    """

    def __init__(self, request: OnlineRequest, live: OnlineBase, say: Callable[[str], None]):
        """Stores the request, the live version, and the printer of lines."""
        self._request, self._target, self._say = request, live.version.parent, say
        self._is_wanted = request.follows and trains_shadow(request.spec)
        self._training: Training | None = None
        self.lineage = ""

    @property
    def job(self) -> TrainJob | None:
        """The job of the training; None: nothing is trained."""
        return self._training.job if self._training else None

    def has_changed(self) -> bool:
        """Returns whether another version waits than the one of `follow`."""
        return self._is_wanted and (versions.shadow(self._target) or "") != self.lineage

    def follow(self, waiting: OnlineBase | None) -> None:
        """Trains the version that waits; ends the training of another one, which was dropped. None: none waits."""
        lineage = waiting.lineage if waiting and self._is_wanted else ""
        if lineage == self.lineage:
            return
        self.end()
        self.lineage = lineage
        if waiting is None or not lineage:
            return
        try:
            job = job_in_shadow(self._request, waiting)
        except UserError as error:
            self._say(f"version {lineage}, in the shadow, is not trained: {error}")
            return
        assert job.stream is not None
        # Servers score nothing with it from now on until it has learned what the live version has.
        deltas.lineage_folder(self._target, lineage).mkdir(parents=True, exist_ok=True)
        self._say(f"training version {lineage}, in the shadow, on, from segment {job.stream.first}")
        if lacks_rows(job):
            self._say(f"rows after the data of version {lineage} may be missing; raise online.keep_days")
        self._training = Training(job, "the trainer of the version in the shadow")

    def check(self) -> str:
        """Starts the training again if it has ended; returns a line for the user, or ""."""
        if self._training is None:
            return ""
        try:
            return self._training.check()
        except UserError as error:
            self.end()
            return f"version {self.lineage}, in the shadow, is trained no more: {error}"

    def ask_to_stop(self) -> None:
        """Has the training publish its last changes, write a checkpoint, and end."""
        if self._training is not None:
            self._training.ask_to_stop()

    def wait_for_end(self, seconds: float) -> None:
        """Waits for its own end."""
        if self._training is not None:
            self._training.wait_for_end(seconds)

    def end(self) -> None:
        """Ends it if it runs."""
        if self._training is not None:
            self._training.end()
            self._training = None
