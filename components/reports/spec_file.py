"""The spec of a run, `<root>/runs/<run>/spec.json`: for later comparisons, and to repeat the run."""

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from sangam.schemas.contracts.root import RunFolder
from sangam.schemas.host.files import write_whole
from sangam.schemas.loading.documents import check_document, whole
from sangam.schemas.spec import Spec


def write_spec(run_folder: Path, spec: Spec) -> None:
    """Writes a spec without its defaults. JSON is YAML: `sangam run` takes the file."""
    write_document(RunFolder(run_folder), document_of(spec))


def document_of(spec: Spec) -> dict[str, Any]:
    """Returns a spec without its defaults, as plain data."""
    document: dict[str, Any] = spec.model_dump(mode="json", exclude_unset=True)
    return document


def write_document(run: RunFolder, document: Mapping[str, Any]) -> None:
    """Writes the document of a spec into a run's folder."""
    write_whole(run.spec, json.dumps(document, indent=2) + "\n")


def read_spec(run: RunFolder) -> Spec | None:
    """Returns the spec of a run; None where an earlier version left none, or this version refuses it."""
    try:
        read = check_document(json.loads(run.spec.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return None
    return read if isinstance(read, Spec) else None


def read_settings(run: RunFolder) -> dict[str, object] | None:
    """Returns every setting of a run's spec, with this version's defaults where it is valid; None without the file."""
    if spec := read_spec(run):
        return whole(spec)
    try:
        document: dict[str, object] = json.loads(run.spec.read_bytes())
        return document
    except (OSError, ValueError, RecursionError):
        return None


def settings_by_path(settings: Mapping[str, object]) -> dict[str, Any]:
    """Returns the settings by their dotted path; a list of mappings by index."""
    return dict(_leaves(settings))


def spec_text(run: RunFolder) -> str:
    """Returns a run's spec without defaults, as YAML."""
    return yaml_of(json.loads(run.spec.read_bytes()))


def yaml_of(document: Mapping[str, Any]) -> str:
    """Returns the document of a spec as YAML, in its order."""
    text = io.StringIO()
    yaml: Any = YAML(typ="safe", pure=True)
    yaml.default_flow_style, yaml.width = None, 120
    yaml.sort_base_mapping_type_on_output = False
    yaml.dump(document, text)
    return text.getvalue()


def spec_changes(before: RunFolder, run: RunFolder) -> list[tuple[str, str, str]] | None:
    """Returns the settings that differ: path, value before, value now; None where one of the specs is unknown."""
    earlier, own = read_settings(before), read_settings(run)
    if earlier is None or own is None:
        return None
    old, new = settings_by_path(earlier), settings_by_path(own)
    return [
        (path, _shown(old, path), _shown(new, path))
        for path in dict.fromkeys((*old, *new))
        if old.get(path) != new.get(path)
    ]


def _shown(settings: Mapping[str, Any], path: str) -> str:
    return json.dumps(settings[path]) if path in settings else "–"


def _leaves(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    children: Iterator[tuple[str, Any]] | None = None
    if isinstance(node, Mapping) and node:
        children = iter(node.items())
    elif isinstance(node, list) and any(isinstance(child, Mapping) for child in node):
        children = ((str(place), child) for place, child in enumerate(node))
    if children is None:
        yield path, node
        return
    for key, child in children:
        yield from _leaves(child, f"{path}.{key}" if path else key)
