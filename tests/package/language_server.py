"""A client of the language server for YAML, over its standard input and output, as an editor is one."""

import itertools
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CURSOR = "¦"
"""Stands for the cursor in a text, which is opened without it."""
_SETTINGS = {"validate": True, "hover": True, "completion": True, "schemaStore": {"enable": False}}

_Message = dict[str, Any]


class LanguageServer:
    """A language server that has started.

    Args:
        process: the server.
        folder: the folder in which texts are opened as new files, which the disk does not have.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", folder: Path):
        self._process, self._folder = process, folder
        self._requests, self._files = itertools.count(1), itertools.count(1)

    def problems(self, text: str) -> dict[str, str]:
        """Returns the message of each mistake in a text, by the marked part."""
        _, published = self._opened(text)
        return {_part(text, each["range"]): each["message"] for each in published}

    def completions(self, text: str) -> dict[str, str]:
        """Returns what is offered at the cursor of a text, with its documentation."""
        found = self.ask("textDocument/completion", self._at_cursor(text))
        return {each["label"]: each.get("documentation", "") for each in found["items"]}

    def hover(self, text: str) -> str:
        """Returns what is shown about the cursor's place in a text."""
        return str(self.ask("textDocument/hover", self._at_cursor(text))["contents"]["value"])

    def ask(self, method: str, parameters: Any) -> Any:
        """Sends a request; returns its result."""
        number = next(self._requests)
        self._send({"id": number, "method": method, "params": parameters})
        answer = self._awaited(lambda message: "method" not in message and message["id"] == number)
        assert "error" not in answer, answer
        return answer["result"]

    def tell(self, method: str, parameters: Any) -> None:
        """Sends a notification."""
        self._send({"method": method, "params": parameters})

    def _at_cursor(self, text: str) -> _Message:
        before, after = text.split(CURSOR)
        uri, _ = self._opened(before + after)
        lines = before.split("\n")
        return {"textDocument": {"uri": uri}, "position": {"line": len(lines) - 1, "character": len(lines[-1])}}

    def _opened(self, text: str) -> tuple[str, list[_Message]]:
        uri = (self._folder / f"{next(self._files)}.yaml").as_uri()
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self.tell("textDocument/didOpen", {"textDocument": document})
        told = self._awaited(
            lambda message: (
                message.get("method") == "textDocument/publishDiagnostics" and message["params"]["uri"] == uri
            )
        )
        return uri, told["params"]["diagnostics"]

    def _send(self, message: _Message) -> None:
        assert self._process.stdin is not None
        content = json.dumps({"jsonrpc": "2.0"} | message).encode()
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(content), content))
        self._process.stdin.flush()

    def _awaited(self, is_it: Callable[[_Message], bool]) -> _Message:
        """Reads messages up to the one that is awaited; answers the server's own requests."""
        while not is_it(message := self._read()):
            if "method" in message and "id" in message:
                wanted = message["params"]["items"] if message["method"] == "workspace/configuration" else None
                result = wanted and [_SETTINGS if each["section"] == "yaml" else None for each in wanted]
                self._send({"id": message["id"], "result": result})
        return message

    def _read(self) -> _Message:
        output, length = self._process.stdout, 0
        assert output is not None
        while (line := output.readline()) != b"\r\n":
            assert line, f"the language server has ended with code {self._process.wait(10)}"
            name, _, value = line.partition(b":")
            length = int(value) if name == b"Content-Length" else length
        message: _Message = json.loads(output.read(length))
        return message


def _part(text: str, marked: _Message) -> str:
    start, end = marked["start"], marked["end"]
    assert start["line"] == end["line"]
    return text.split("\n")[start["line"]][start["character"] : end["character"]]


@contextmanager
def language_server(command: list[str], folder: Path) -> Iterator[LanguageServer]:
    """Runs a language server, which has ended when the block has."""
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        server = LanguageServer(process, folder)
        capabilities = {"workspace": {"configuration": True}}
        server.ask("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities})
        server.tell("initialized", {})
        server.tell("workspace/didChangeConfiguration", {"settings": {"yaml": _SETTINGS}})
        yield server
        server.ask("shutdown", None)
        server.tell("exit", None)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()
