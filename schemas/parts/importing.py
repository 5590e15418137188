"""Imports the modules with parts that a spec names, in every process that reads the spec."""

import importlib
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from sangam.schemas.errors import UserError

# Not one text: it would be the name of a module, which a step starts (components/caching).
ENTRY_POINTS = ".".join(("sangam", "parts"))
"""Group of entry points: an installed package offers its parts under a short name."""
FOLDERS = "SANGAM_PARTS"
"""Variable with the folders beside specs, for this process and its children."""


def folders() -> list[str]:
    """Returns the folders beside specs."""
    return [folder for folder in os.environ.get(FOLDERS, "").split(os.pathsep) if folder]


def look_beside(spec: Path) -> None:
    """Lets this process and its children import modules in the folder of a spec, after all installed ones."""
    folder = str(spec.resolve().parent)
    known = folders()
    if folder not in known:
        os.environ[FOLDERS] = os.pathsep.join([*known, folder])


def import_parts(names: Sequence[str]) -> Sequence[str]:
    """Imports modules, which registers the classes in them, and returns the names.

    Args:
        names: dotted names of modules, or names of entry points.

    Raises:
        UserError: a module is missing, or its import fails; with the file and the line.
    """
    for name in names:
        import_part(name)
    return names


def import_part(name: str) -> ModuleType:
    """Imports one module with parts; see `import_parts`."""
    # Last on the path: a file beside a spec never hides a library's module.
    sys.path += [folder for folder in folders() if folder not in sys.path]
    module = module_of(name)
    try:
        found = importlib.import_module(module)
        _refuse_hidden(name, module, found.__file__)
        return found
    except UserError:
        raise
    except ModuleNotFoundError as error:
        if error.name and (module == error.name or module.startswith(f"{error.name}.")):
            raise UserError(_missing(name, module)) from None
        raise UserError(_failed(name, error)) from error
    except Exception as error:
        raise UserError(_failed(name, error)) from error


def _refuse_hidden(name: str, module: str, got: str | None) -> None:
    """Refuses a module that has the place of one beside a spec."""
    for folder in folders():
        for file in (
            Path(folder, *module.split(".")).with_suffix(".py"),
            Path(folder, *module.split("."), "__init__.py"),
        ):
            if file.is_file() and (got is None or not file.samefile(got)):
                raise UserError(
                    f"parts: '{name}' is another module than the one beside the spec (got {got}, not {file}); give "
                    "yours a name that no installed package has"
                )


def module_of(name: str) -> str:
    """Returns the module behind a name in `parts:`, which may be that of an entry point."""
    found = importlib.metadata.entry_points(group=ENTRY_POINTS, name=name)
    return next((each.module for each in found), name)


def _missing(name: str, module: str) -> str:
    looked = ", ".join(folders()) or "no folder beside a spec"
    return (
        f"parts: no such module (got '{name}'); put {module.replace('.', '/')}.py beside the spec, or install the "
        f"package that has it in this environment (looked in {looked} and in {sys.prefix})"
    )


def _failed(name: str, error: BaseException) -> str:
    trace, place = error.__traceback__, ""
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith("<frozen importlib"):
            place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}"
    text = next((line for line in str(error).splitlines() if line.strip()), "no text")
    return f"{place}: {type(error).__name__}: {text} (got this from the import of parts '{name}'); mend the module"
