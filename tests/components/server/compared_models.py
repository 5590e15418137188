"""A version whose requests are compared with training rows."""

import shutil
from pathlib import Path

from tests.components.drift.sample_statistics import sample_reference
from tests.components.server.logged_models import DESCRIPTION
from tests.components.server.sample_models import put


def put_compared(model: Path, versions: Path, number: int) -> Path:
    """Adds a version with the reference of `sample_statistics`."""
    described = versions.parent / f"compared-{number}"
    shutil.copytree(model, described)
    (described / "assets.extra").mkdir(exist_ok=True)
    (described / "assets.extra/ranker.json").write_text(DESCRIPTION.text())
    (described / "drift_reference.json").write_text(sample_reference().text())
    return put(described, versions, number)
