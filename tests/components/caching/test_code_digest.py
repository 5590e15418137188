"""The key of a step: the sources that its process imports, those of the processes it starts, and library versions."""

import functools
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from sangam.components.caching import code_digest as digests
from sangam.components.caching.code_digest import (
    code_digest,
    installed_versions,
    read_source,
    source_files,
    sources_digest,
)
from sangam.schemas.errors import UserError
from tests.errors import place_and_value

PREPROCESSING_FN = "sangam.trainer_module.transforms.preprocessing.preprocessing_fn"
KEYS = {
    "example_gen": ["sangam.components.steps.example_gen.executor"],
    "schema_gen": ["sangam.components.steps.schema_gen.executor"],
    "statistics_gen": ["sangam.components.steps.statistics_gen.executor"],
    "example_validator": ["sangam.components.steps.example_validator.executor"],
    "transform": ["sangam.components.steps.transform.executor", PREPROCESSING_FN],
    "trainer": ["sangam.components.steps.trainer.executor"],
    "evaluator": ["sangam.components.steps.evaluator.executor"],
    "infra_validator": ["sangam.components.steps.infra_validator.executor"],
    "pusher": ["sangam.components.steps.pusher.executor"],
}
"""What the components give to `code_digest`, by step."""
STARTED = {
    "transform": ["sangam.trainer_module.transforms.preprocessing"],
    "trainer": [
        *(
            "sangam.trainer_module.launch.launcher",
            "sangam.trainer_module.__main__",
            "sangam.trainer_module.launch.data_service",
            "sangam.trainer_module.export",
            "sangam.trainer_module.parameter_server.__main__",
        ),
        *("sangam.trainer_module.launch.coordinator", "sangam.trainer_module.launch.host"),
        # Ranks import it if they communicate over Horovod.
        "sangam.trainer_module.collectives.over_horovod",
        # The export imports them once it knows what to write.
        *(
            "sangam.trainer_module.serving.writing",
            "sangam.trainer_module.serving.stock_table",
            "sangam.trainer_module.serving.tfra_table",
        ),
    ],
    "infra_validator": [
        # The server imports the second once the ports are free, the others if it has a log.
        *("sangam.components.server.__main__", "sangam.components.server.serving"),
        *("sangam.components.request_log.folder", "sangam.components.request_log.topic"),
    ],
}
"""What a step's process imports beside its executor, and what the processes that it starts import."""

_IMPORTED = """
import importlib, json, os, sys
from pathlib import Path
# Once for all: nothing of the project is imported by them.
import tensorflow_model_analysis, tensorflow_transform.beam, tfx.v1
here, project = Path.cwd(), "sangam"
sys.stdout.flush()
for step, modules in json.loads(sys.argv[1]).items():
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0, step
        continue
    for module in modules:
        importlib.import_module(module)
    ours = [found.__file__ for name, found in sys.modules.items() if name.split(".")[0] == project]
    Path(sys.argv[2], step).write_text(json.dumps([str(Path(file).relative_to(here)) for file in ours if file]))
    os._exit(0)
"""


READ = functools.cache(read_source)


def keys(edited: str = "") -> dict[str, str]:
    """Returns what each step is keyed by, as if one file had another line."""

    def read(path: str) -> bytes | None:
        source = READ(path)
        return source + b"\nEDITED = True\n" if source is not None and path == edited else source

    return {step: sources_digest(*entries, read=read) for step, entries in KEYS.items()}


def steps_changed_by(path: str) -> frozenset[str]:
    assert READ(path) is not None
    before, after = keys(), keys(path)
    return frozenset(step for step in KEYS if after[step] != before[step])


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, set[str]]:
    """The files of the project that each step's processes import, as Python says."""
    folder = tmp_path_factory.mktemp("imported")
    modules = {step: [*KEYS[step], *STARTED.get(step, [])] for step in KEYS}
    modules["transform"].remove(PREPROCESSING_FN)
    environment = {**os.environ, "TF_USE_LEGACY_KERAS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    words = [sys.executable, "-c", _IMPORTED, json.dumps(modules), str(folder)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return {step: set(json.loads((folder / step).read_text())) for step in KEYS}


@pytest.mark.long
@pytest.mark.slow
def test_a_step_is_keyed_by_what_its_processes_import_and_by_nothing_else(imported: Mapping[str, set[str]]) -> None:
    found = {step: {path for path in source_files(*entries) if path.endswith(".py")} for step, entries in KEYS.items()}
    assert found == imported


@pytest.mark.long
@pytest.mark.slow
def test_an_edit_of_a_module_changes_the_keys_of_the_steps_that_import_it_alone(
    imported: Mapping[str, set[str]],
) -> None:
    before = keys()
    # Some of them: which files a step's key is made of is compared above.
    for path in sorted(set().union(*imported.values()))[::25]:
        after = keys(path)
        changed = {step for step in KEYS if after[step] != before[step]}
        assert changed == {step for step in KEYS if path in imported[step]}, path


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("sangam/trainer_module/transforms/numbers.py", {"transform", "trainer"}),
        ("sangam/trainer_module/transforms/__init__.py", {"transform", "trainer"}),
        ("sangam/trainer_module/loop/trainer.py", {"trainer"}),
        ("sangam/trainer_module/native/dense.cc", {"trainer"}),
        ("sangam/components/server/rest.py", {"infra_validator"}),
        ("sangam/components/registry/versions.py", {"example_gen", "evaluator", "infra_validator", "pusher"}),
        ("sangam/components/steps/evaluator/metrics/group_metrics.py", {"evaluator"}),
        ("sangam/components/logs/readers/csv.py", {"example_gen", "infra_validator"}),  # Gates of skew read tables.
        ("sangam/schemas/spec/tasks.py", set(KEYS) - {"statistics_gen"}),
        ("sangam/pipelines/pipeline.py", set()),
        ("sangam/components/steps/pusher/component.py", set()),
    ],
)
def test_an_edit_changes_these_keys(path: str, steps: set[str]) -> None:
    assert steps_changed_by(path) == steps


def test_a_version_of_a_library_changes_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {step: code_digest(*entries) for step, entries in KEYS.items()}
    assert before == {step: code_digest(*entries) for step, entries in KEYS.items()}
    versions = {**installed_versions(), "tensorflow-transform": "1.99.0"}
    monkeypatch.setattr(digests, "installed_versions", lambda: versions)
    after = {step: code_digest(*entries) for step, entries in KEYS.items()}
    assert [step for step in KEYS if before[step] == after[step]] == []


def test_the_versions_are_those_installed_of_what_the_lock_names() -> None:
    versions = installed_versions()
    assert versions["tensorflow"] == "2.16.2"
    assert versions["apache-beam"] == "2.74.0"
    assert len(versions) > 100
    # A tool of the developers' changes no result.
    assert not {"pytest", "ruff", "mypy"} & versions.keys()


def test_a_lock_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(digests, "_ROOT", tmp_path)
    installed_versions.cache_clear()
    try:
        with pytest.raises(UserError, match=place_and_value("requirements.runtime.lock", "is missing")):
            installed_versions()
    finally:
        installed_versions.cache_clear()


def files_of(tree: Mapping[str, str], *entries: str) -> list[str]:
    return source_files(*entries, read=lambda path: tree[path].encode() if path in tree else None)


EMPTY = {
    "sangam/__init__.py": "",
    "sangam/schemas/__init__.py": "",
    "sangam/schemas/a.py": "",
    "sangam/schemas/b.py": "",
    "sangam/schemas/c.py": "",
}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import sangam.schemas.b", ["b"]),
        ("import sangam.schemas.b as other, sangam.schemas.c", ["b", "c"]),
        ("from sangam.schemas import b", ["b"]),
        ("from sangam.schemas.b import anything", ["b"]),
        ("from sangam.schemas.b import *", ["b"]),
        ("from . import b", ["b"]),
        ("from .b import anything", ["b"]),
        ("def later():\n    from sangam.schemas import b", ["b"]),
        ("try:\n    import sangam.schemas.b\nexcept ImportError:\n    import sangam.schemas.c", ["b", "c"]),
        ("if TYPE_CHECKING:\n    import sangam.schemas.b\nelse:\n    import sangam.schemas.c", ["c"]),
        ("if other:\n    import sangam.schemas.b", ["b"]),
        ("start(['python', '-m', 'sangam.schemas.b'])", ["b"]),
        ("load('sangam.schemas.b.function')", ["b"]),
        ("'''See schemas.b for more.'''", []),
        ("import os, numpy.random\nfrom os.path import join", []),
        ("import sangam.schemas.nowhere", []),
    ],
)
def test_what_a_module_imports_or_names_counts(source: str, found: list[str]) -> None:
    tree = {**EMPTY, "sangam/schemas/a.py": source}
    assert files_of(tree, "sangam.schemas.a") == sorted(
        ["sangam/__init__.py", "sangam/schemas/__init__.py", *(f"sangam/schemas/{name}.py" for name in ["a", *found])]
    )


def test_a_package_that_is_started_counts_with_its_main_module_and_what_that_imports() -> None:
    tree = {
        **EMPTY,
        "sangam/schemas/a.py": "MODULE = 'sangam.components.served'",
        "sangam/components/__init__.py": "",
        "sangam/components/served/__init__.py": "",
        "sangam/components/served/__main__.py": "import sangam.schemas.c",
    }
    assert files_of(tree, "sangam.schemas.a") == sorted(set(tree) - {"sangam/schemas/b.py"})


def test_of_a_package_on_the_way_only_what_runs_at_its_import_counts() -> None:
    tree = {
        **EMPTY,
        "sangam/schemas/__init__.py": "import sangam.schemas.b\ndef later():\n    import sangam.schemas.c\n",
    }
    assert files_of(tree, "sangam.schemas.a") == [
        "sangam/__init__.py",
        "sangam/schemas/__init__.py",
        "sangam/schemas/a.py",
        "sangam/schemas/b.py",
    ]
    whole = {**tree, "sangam/schemas/a.py": "import sangam.schemas"}
    assert files_of(whole, "sangam.schemas.a") == sorted(tree)


def test_modules_that_import_each_other_are_found_once() -> None:
    tree = {**EMPTY, "sangam/schemas/a.py": "import sangam.schemas.b", "sangam/schemas/b.py": "import sangam.schemas.a"}
    assert files_of(tree, "sangam.schemas.a") == [
        "sangam/__init__.py",
        "sangam/schemas/__init__.py",
        "sangam/schemas/a.py",
        "sangam/schemas/b.py",
    ]


@pytest.mark.parametrize("entry", ["sangam.schemas.nowhere.function", "numpy", "nowhere"])
def test_an_entry_that_is_no_module_of_the_project_is_an_error(entry: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=rf"\(got {re.escape(repr(entry))}\)"):
        source_files(entry)
