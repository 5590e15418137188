"""Texts between ranks through a folder that they share, before they are connected."""

import os
import time
from pathlib import Path

from sangam.schemas.errors import UserError

_LONGEST_S = 600.0
_POLL_S = 0.005


class Gathering:
    """Ranks that read each other's files; the launcher ends all of them when one is lost."""

    def __init__(self, folder: Path, rank: int, ranks: int):
        """Takes the folder, which is empty at first, and this rank's place."""
        self._folder, self._rank, self._ranks = folder, rank, ranks
        self._round = 0

    def texts(self, text: str) -> list[str]:
        """Returns every rank's text, in rank order. All ranks together.

        Raises:
            UserError: a rank did not come.
        """
        self._round += 1
        own = self._file(self._rank)
        unfinished = own.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        # With the secrets of `over_tcp` a process is a rank.
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        unfinished.rename(own)
        given_up = time.monotonic() + _LONGEST_S
        return [self._read(rank, given_up) for rank in range(self._ranks)]

    def _file(self, rank: int) -> Path:
        return self._folder / f"{self._round}-{rank}"

    def _read(self, rank: int, given_up: float) -> str:
        while True:
            try:
                return self._file(rank).read_text()
            except FileNotFoundError:
                if time.monotonic() > given_up:
                    raise UserError(
                        f"training: rank {rank} did not reach {self._folder} within {_LONGEST_S:.0f} s; see its log"
                    ) from None
                time.sleep(_POLL_S)
