"""Folders of any name: nothing but the spec's pattern is a pattern."""

import tempfile
from pathlib import Path
from typing import BinaryIO

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sangam.components.logs.files.digests import digests_of
from sangam.components.logs.files.local_files import LocalStorage
from sangam.components.logs.files.newest import newest_day
from sangam.components.logs.files.resolve import fingerprint, resolve
from sangam.pipelines.drafting.layout import layout_of
from tests.components.logs.sample_logs import day_logs

DAYS = ("2024-02-28", "2024-02-29", "2024-03-01")
NASTY = "[]*?{}#%&'\"\\$~!|;:=+-_.,()<>^`@ \té日\u2028\x85\n"
CHARACTERS = st.sampled_from(NASTY) | st.characters(blacklist_categories=("Cs",), blacklist_characters="/\0")
NAMES = st.text(CHARACTERS, min_size=1).filter(lambda name: name not in (".", "..") and len(name.encode()) <= 250)


def open_binary(path: str) -> BinaryIO:
    return open(path, "rb")


@settings(max_examples=15, deadline=None)
@given(folder=NAMES, file=NAMES)
@example(folder="a" * 250, file="é" * 121)
@example(folder="exp [v1] #2 100% é?", file="[!a]*")
def test_logs_in_a_folder_of_any_name_are_found_and_known_by_their_content(folder: str, file: str) -> None:
    # A pattern's `*` skips names that begin so, and a name has at most 255 bytes.
    name = f"x{file.encode()[:240].decode(errors='ignore')}.parquet"
    with tempfile.TemporaryDirectory() as made:
        data, root = Path(made, folder, "logs"), Path(made, folder, "root")
        for number, day in enumerate(DAYS):
            (data / day).mkdir(parents=True)
            (data / day / name).write_bytes(b"%d" % number)
        files = resolve(day_logs(), DAYS[-1], str(data), LocalStorage())
        assert [each.path for each in files.files] == [str(data / day / name) for day in DAYS]
        first = digests_of(files.all_files, str(root), open_binary, now_ns=lambda: 2**63)
        assert len(set(first.values())) == 3
        again = digests_of(files.all_files, str(root), open_binary)
        assert fingerprint(files, str(data), first) == fingerprint(files, str(data), again)
        assert str(newest_day(day_logs(), str(data), LocalStorage())) == DAYS[-1]
        layout = layout_of(data)
        drafted = day_logs(pattern=layout.patterns["days"])
        assert resolve(drafted, DAYS[-1], str(data), LocalStorage()).files == files.files
