"""One page for the metrics of all processes of a server: whichever is asked asks the others."""

import re
from collections.abc import Mapping
from pathlib import Path

from sangam.components.server.control import METRICS, ask


def page_of_all(folder: Path) -> bytes:
    """Returns the metrics of the processes whose sockets lie in a folder, without those that do not answer."""
    pages = {file.name: ask(file, METRICS) for file in sorted(folder.iterdir())}
    return merged({worker: page for worker, page in pages.items() if page is not None})


def merged(pages: Mapping[str, bytes]) -> bytes:
    """Returns one page for several processes, whose samples have the label `worker`.

    Sums would not do: a process that starts again would lower them.

    Args:
        pages: page of each process, by its label; all have the same metrics.
    """
    families: dict[str, list[str]] = {}
    for worker, page in pages.items():
        for family in page.decode().split("# HELP ")[1:]:
            about, kind, *samples = family.splitlines()
            lines = families.setdefault(kind, [f"# HELP {about}", kind])
            lines += [_labelled(sample, worker) for sample in samples]
    return "".join(f"{line}\n" for lines in families.values() for line in lines).encode()


def _labelled(sample: str, worker: str) -> str:
    name = re.split("[{ ]", sample, maxsplit=1)[0]
    rest = sample[len(name) :]
    others = f",{rest[1:]}" if rest.startswith("{") else f"}}{rest}"
    return f'{name}{{worker="{worker}"{others}'
