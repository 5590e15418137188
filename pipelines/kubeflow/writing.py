"""YAML text with reviewable diffs."""

from pathlib import Path
from typing import Any

import yaml

from sangam.schemas.host.files import write_whole


def yaml_text(*documents: dict[str, Any]) -> str:
    """Returns the documents, separated by `---`."""
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=True, width=120)


def write_compiled(text: str, output: Path) -> None:
    """Writes a compiled pipeline atomically."""
    output.parent.mkdir(parents=True, exist_ok=True)
    write_whole(output, text)


class _Dumper(yaml.SafeDumper):
    """Writes multi-line texts as blocks, and no anchors or aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def _represent_text(dumper: _Dumper, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
