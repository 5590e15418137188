"""No code of ours can be made to run what somebody has written into a file: read from the syntax trees of all of it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PACKAGES = ("sangam", "schemas", "components", "trainer_module", "pipelines", "bench")
# Each of them runs code that it finds in what it reads, or unpacks files to places that are named in it.
FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "jsonpickle"}
FORBIDDEN_MODULES |= {"tarfile", "zipfile", "code", "codeop", "xmlrpc"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "shutil.unpack_archive"}
FORBIDDEN_CALLS |= {"pty.spawn", "tempfile.mktemp", "subprocess.getoutput", "subprocess.getstatusoutput"}
FORBIDDEN_CALLS |= {"pandas.read_pickle", "pd.read_pickle", "os.execl", "os.execlp", "importlib.reload"}
# pyarrow before 14.0.1 runs code that a Parquet or Arrow file brings: one module opens them, and refuses that.
JUDGED_KEYWORDS = {"shell", "allow_pickle", "verify", "typ", "safe_mode"}
OPENS_ARROW_FILES = "components/arrow_files.py"
ARROW_READERS = re.compile(
    r"((pq|ipc|feather|orc|ds|pd|pandas|pyarrow|pa)\.)+(read_(table|pandas|metadata|schema|parquet|feather|orc|record_batch|"
    r"message|tensor)|open_\w+|deserialize\w*|dataset|Parquet(File|Dataset)|RecordBatch(File|Stream)Reader)"
    r"|(\w+\.)*ReadAllFromParquet|(\w+\.)*ReadFromParquet(Batched)?"
)
ARROW_MODULES = {"pyarrow.dataset", "pyarrow.feather", "pyarrow.flight", "pyarrow.orc", "pyarrow.plasma"}
ALLOWED_IMPORTS_BY_NAME = {
    "components/steps/evaluator/models/loaded.py": "one of two packages, by comparison with their names",
    "components/steps/transform/executor.py": "the module of preprocessing_fn, which TFX imports by our parameter",
    "sangam/__init__.py": "names of the API, listed there",
    "sangam/parts/__init__.py": "TensorFlow",
    "schemas/parts/importing.py": "modules that a spec names: its operator is trusted (SECURITY.md)",
    "trainer_module/launch/nursery.py": "what forked processes import, listed there",
}


def problems(source: str, name: str = "x.py") -> list[str]:
    """Returns what in a module could run or unpack outside data."""
    return [f"{name}:{line}: {what}" for line, what in _problems(ast.parse(source), name)]


def _problems(tree: ast.Module, name: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
            if names[0].split(".")[0] == "pyarrow":
                yield node.lineno, f"from {names[0]}: write it as an attribute of pyarrow, so that it is found here"
        else:
            names = []
        yield from (
            (node.lineno, f"import {each}")
            for each in names
            if each.split(".")[0] in FORBIDDEN_MODULES or each in ARROW_MODULES
        )
        if isinstance(node, ast.Call):
            yield from ((node.lineno, what) for what in _of_call(node, name))


def _dotted(node: ast.expr) -> str:
    """Returns the source of what is called; ast.unparse takes thirty times as long."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{_dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ast.unparse(node)


def _of_call(node: ast.Call, name: str) -> Iterator[str]:
    called = _dotted(node.func)
    keywords = {each.arg: ast.unparse(each.value) for each in node.keywords if each.arg in JUDGED_KEYWORDS}
    if called in FORBIDDEN_CALLS:
        yield called
    if ARROW_READERS.fullmatch(called.replace("pyarrow.parquet", "pq")) and name != OPENS_ARROW_FILES:
        yield f"{called}: outside {OPENS_ARROW_FILES}"
    is_literal = bool(node.args) and isinstance(node.args[0], ast.Constant)
    if called.split(".")[-1] == "import_module" and not is_literal and name not in ALLOWED_IMPORTS_BY_NAME:
        yield f"{called}: of a name that was not written here"
    if keywords.get("shell", "False") != "False":
        yield f"{called}: through a shell"
    if keywords.get("allow_pickle", "False") != "False":
        yield f"{called}: allow_pickle"
    if keywords.get("verify", "True") == "False":
        yield f"{called}: verify=False"
    if called.split(".")[0] == "yaml" and "load" in called and not called.startswith("yaml.safe_load"):
        yield f"{called}: not the safe loader"
    if called.split(".")[-1] == "YAML" and keywords.get("typ", "'rt'") not in ("'safe'", "'rt'"):
        yield f"{called}: typ={keywords['typ']}"
    if called.endswith("load_model") and keywords.get("safe_mode", "True") == "False":
        yield f"{called}: safe_mode=False"


def test_nothing_of_ours_runs_or_unpacks_what_it_reads(repository: Path) -> None:
    files = [path for package in PACKAGES for path in sorted((repository / package).rglob("*.py"))]
    assert len(files) > 200
    found = [
        problem for path in files for problem in problems(path.read_text(), path.relative_to(repository).as_posix())
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from dill import loads",
        "import tarfile",
        "eval(text)",
        "exec(open(path).read())",
        "os.system(command)",
        "subprocess.run(command, shell=True)",
        "subprocess.run(command, shell=flag)",
        "np.load(path, allow_pickle=True)",
        "yaml.load(text)",
        "yaml.load(text, Loader=yaml.Loader)",
        "yaml.unsafe_load_all(text)",
        "YAML(typ='unsafe').load(text)",
        "importlib.import_module(name)",
        "import_module(name)",
        "tf.keras.models.load_model(path, safe_mode=False)",
        "httpx.Client(verify=False)",
        "shutil.unpack_archive(path, folder)",
        "pq.ParquetFile(path)",
        "pq.read_metadata(path)",
        "pyarrow.parquet.read_table(path)",
        "pa.ipc.open_stream(content)",
        "pd.read_parquet(path)",
        "beam.io.ReadFromParquet(pattern)",
        "import pyarrow.dataset as ds",
        "from pyarrow.parquet import ParquetFile",
    ],
)
def test_each_way_of_running_outside_data_is_found(source: str) -> None:
    assert len(problems(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "yaml.safe_load(text)",
        "YAML(typ='rt').load(text)",
        "np.load(path)",
        "subprocess.run(command, shell=False)",
        "json.loads(text)",
        "pq.write_table(table, path)",
        "open_parquet(path).read()",
        "re.compile(pattern)",
        "importlib.import_module('.part', __name__)",
    ],
)
def test_safe_ways_are_left_alone(source: str) -> None:
    assert problems(source) == []
