"""The command `sangam doctor`."""

import typer
from rich.markup import escape

from pipelines.console import terminal
from schemas.contracts.exit_codes import ExitCode

EPILOG = "Example: sangam doctor\n\nExit codes: 0 all is well; 1 something is wrong."


def doctor() -> None:
    """Checks that this machine can run a pipeline, and says how to fix what is wrong."""
    from pipelines.checks.doctor import examine

    console, wrong = terminal(), 0
    for finding in examine():
        wrong += not finding.is_ok
        mark = "[green]ok   [/]" if finding.is_ok else "[red]wrong[/]"
        console.print(f"{mark} {finding.name:<10} {escape(finding.detail)}", soft_wrap=True)
        if finding.fix:
            console.print(f"      {'':<10} fix: {escape(finding.fix)}", soft_wrap=True)
    raise typer.Exit(ExitCode.FAILED if wrong else ExitCode.DONE)
