"""`import sangam` loads nothing, and has the names that editors and mypy are told."""

import ast
import subprocess
import sys

import pytest

import sangam
from tests.paths import REPOSITORY

ARTIFACTS = {"RankerCheckpoint"}


def _modules_after(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_import_loads_the_standard_library_alone() -> None:
    loaded = _modules_after("import sangam") - _modules_after("")
    assert loaded <= {"sangam", *sys.stdlib_module_names}


def test_specs_and_runs_are_had_without_tensorflow_and_tfx_and_pandas() -> None:
    loaded = _modules_after("import sangam\nsangam.Spec, sangam.Root, sangam.Run, sangam.run, sangam.client")
    assert not loaded & {"tensorflow", "tfx", "apache_beam", "ml_metadata", "horovod", "pandas", "pyarrow", "numpy"}


@pytest.mark.slow
def test_editors_are_told_the_names_that_there_are() -> None:
    told = ast.parse((REPOSITORY / "sangam" / "__init__.pyi").read_text())
    names = {alias.asname for node in told.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert names == {*sangam.__all__, *ARTIFACTS}
    assert all(getattr(sangam, name).__name__ == name for name in sangam.__all__)
    assert set(sangam.__all__) <= set(dir(sangam))


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        sangam.nothing  # noqa: B018
