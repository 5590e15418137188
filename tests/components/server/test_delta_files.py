"""A delta whose files have the declared sha256 and cannot be read: refused with the file, whatever NumPy raises."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from sangam.components.server.delta_files import NotApplicable, read_delta
from sangam.schemas.contracts import deltas
from sangam.trainer_module.online.delta_files import arrays

_LINEAGE = "20240301001"
_HEADERS = [
    (b"(2,)", b"(2, "),  # tokenize.TokenError
    (b"'descr'", b"((((((("),
    (b"(2,), }       ", b"(999999999999,)}"[:14]),
    (b"(2,), }            ", b"(9999999999999,), }"),  # MemoryError
    (b"False", b"Fa\0se"),
    (b"'<i8'", b"'|O8'"),
]


def _published(versions: Path) -> Path:
    (versions / _LINEAGE).mkdir(parents=True)
    (versions / _LINEAGE / "manifest.json").write_text("{}")
    path = deltas.begin(versions, _LINEAGE, 1)
    for what, array in (("keys", np.arange(2)), ("rows", np.zeros([2, 4], np.float32))):
        np.save(path / deltas.rows_file("users", 0, what), array)
    deltas.publish(
        path,
        ranker="r",
        lineage=_LINEAGE,
        number=1,
        segment=1,
        newest_event=None,
        examples=2,
        groups={"users": deltas.GroupChange(rows=2, removed=0)},
        dense=False,
    )
    return path


@pytest.mark.parametrize(("header", "damaged"), _HEADERS)
def test_a_header_that_cannot_be_read_is_refused_although_its_sha256_is_right(
    tmp_path: Path, header: bytes, damaged: bytes
) -> None:
    path = _published(tmp_path)
    place = deltas.Lineage(lineage=_LINEAGE, number=0, sha256=deltas.sha256_at(tmp_path, _LINEAGE, 0))
    assert len(read_delta(tmp_path, place, {"users": 4}).changes) == 1
    file = path / "users.0.keys.npy"
    content = file.read_bytes().replace(header, damaged)
    assert content != file.read_bytes()
    file.write_bytes(content)
    document = json.loads((path / deltas.DELTA_FILE).read_text())
    document["files"][file.name]["sha256"] = hashlib.sha256(content).hexdigest()
    (path / deltas.DELTA_FILE).write_text(json.dumps(document))
    with pytest.raises(NotApplicable, match=str(file)) as refused:
        read_delta(tmp_path, place, {"users": 4})
    assert refused.value.reason == "damaged"
    delta = deltas.read(tmp_path, _LINEAGE, 1)
    with pytest.raises(ValueError, match=str(file)):
        list(arrays(tmp_path, delta, "users", "keys"))
