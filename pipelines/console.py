"""The commands of `sangam` that talk to Kubeflow Pipelines."""

import sys

from rich.console import Console

PLAIN_WIDTH = 200


def console() -> Console:
    """Returns the terminal; off one, lines are left whole for those who read them later."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)


def say(text: str) -> None:
    """Prints a line."""
    Console().print(text, markup=False, highlight=False, soft_wrap=True)
