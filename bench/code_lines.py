"""Lines of code of classes: those with a token that is no comment and of no docstring.

python -m bench.code_lines FILE [CLASS ...]
"""

import ast
import io
import sys
import tokenize
from collections.abc import Iterable
from pathlib import Path

_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def code_lines(source: str, names: Iterable[str] = ()) -> int:
    """Returns the number of lines of code of some classes, or without names of the whole source."""
    tree, wanted = ast.parse(source), set(names)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name in wanted]
    if {node.name for node in classes} != wanted:
        raise ValueError(f"no such classes in the source (got {sorted(wanted)})")
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    lines = {line for each in tokens if each.type not in _NO_CODE for line in range(each.start[0], each.end[0] + 1)}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and _is_text(node)]
    lines -= {line for node in texts for line in range(node.lineno, (node.end_lineno or 0) + 1)}
    if not wanted:
        return len(lines)
    return len({line for node in classes for line in range(node.lineno, (node.end_lineno or 0) + 1)} & lines)


def _is_text(node: ast.AST) -> bool:
    """Says whether a node is a docstring, or the text below an attribute that describes it."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


if __name__ == "__main__":
    print(code_lines(Path(sys.argv[1]).read_text(), sys.argv[2:]))
