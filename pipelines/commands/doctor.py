"""The command `sangam doctor`."""

import dataclasses

import typer
from rich.text import Text

from sangam.pipelines.commands.options import JsonOption
from sangam.pipelines.console import print_json, say, terminal
from sangam.schemas.contracts.exit_codes import ExitCode

EPILOG = "Example: sangam doctor\n\nExit codes: 0 all is well; 1 something is wrong."


def doctor(as_json: JsonOption = False) -> None:
    """Checks that this machine can run a pipeline, and says how to fix what is wrong."""
    from sangam.pipelines.checks.doctor import examine

    if as_json:
        findings = list(examine())
        print_json([dataclasses.asdict(finding) for finding in findings])
        raise typer.Exit(ExitCode.DONE if all(finding.is_ok for finding in findings) else ExitCode.FAILED)
    console, wrong = terminal(), 0
    for finding in examine():
        wrong += not finding.is_ok
        mark = ("ok   ", "green") if finding.is_ok else ("wrong", "red")
        console.print(Text.assemble(mark, f" {finding.name:<10} {finding.detail}"), soft_wrap=True)
        if finding.fix:
            say(f"      {'':<10} fix: {finding.fix}", console)
    raise typer.Exit(ExitCode.FAILED if wrong else ExitCode.DONE)
