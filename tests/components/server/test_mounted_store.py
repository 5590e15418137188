"""A model's way to a server where folders cannot be renamed, nor files linked: pushed, withdrawn, restored, loaded."""

from pathlib import Path

import pytest

from tests.fakes import mounted_store

pytestmark = pytest.mark.slow

_PROGRAM = """
import datetime, os, sys
from pathlib import Path

from sangam.components.steps.pusher.directory import push
from sangam.components.steps.pusher.manifest import Provenance
from sangam.components.registry import blessed, versions
from tests.components.registry.sample_blessings import blessing

root, *models = map(Path, sys.argv[1:])
(root / "a").mkdir()
for refused in (os.rename, os.link):
    try:
        refused(root / "a", root / "b")
    except OSError as error:
        assert error.errno == 95, error
    else:
        raise AssertionError("this is no such store")
now = datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc)
provenance = Provenance(
    name="tiny", spec_digest="s", git_commit="g", days={}, missing_days=[], metrics={}, baseline=None, notes=[]
)
for model in models:
    day = "20240101"
    push(model=model, target=root / "feed", day=day, provenance=provenance, card=lambda version: version, now=now)
    blessed.record(str(root / "blessed"), blessing(str(model)))
assert versions.withdraw(root / "feed", because="why not", now=now) == ["20240101002"]
assert versions.versions(root / "feed") == ["20240101001"]
versions.restore(root / "feed", "20240101002")
"""


def test_a_pushed_withdrawn_and_restored_version_is_whole_and_loads(models: dict[int, Path], tmp_path: Path) -> None:
    from sangam.components.registry import blessed, versions
    from sangam.components.server.model import LoadedModel

    mounted_store.run(_PROGRAM, tmp_path, str(tmp_path), str(models[1]), str(models[2]))
    feed = tmp_path / "feed"
    assert sorted(path.name for path in feed.iterdir()) == [".lock", "20240101001", "20240101002", "withdrawn"]
    assert list((feed / "withdrawn").iterdir()) == []
    for version in versions.versions(feed):
        assert versions.damage(feed / version) is None
        LoadedModel(feed / version, int(version)).warm_up()
    assert [model.model_uri for model in blessed.read_all(str(tmp_path / "blessed"))] == [
        str(models[1]),
        str(models[2]),
    ]
    assert len(list((tmp_path / "blessed").iterdir())) == 2
