"""A run that no longer holds its root starts no further step."""

from pathlib import Path

import pytest

from sangam.components.record.lock import RootInUse, locked
from sangam.pipelines.local.run import _Steps
from sangam.schemas.host.lock import LOCK_FILE


def test_a_step_is_not_started_once_the_lock_is_lost(tmp_path: Path) -> None:
    with locked(tmp_path) as renew:
        (tmp_path / LOCK_FILE).unlink()
        with locked(tmp_path), pytest.raises(RootInUse, match="the lock is lost"):
            _Steps(tmp_path, tmp_path / "run.log", renew).step_started("trainer")
    assert not (tmp_path / "trainer.log").exists()
