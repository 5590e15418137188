"""The command `sangam schema`."""

import json
from typing import Annotated

import typer

EPILOG = "Example: sangam schema > ranker.schema.json"


def schema(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print tables of all keys, for people.")] = False,
) -> None:
    """Prints the JSON Schema of a spec, for editors."""
    from sangam.schemas.loading import json_schema
    from sangam.schemas.loading.reference import reference

    print(reference(json_schema()) if markdown else json.dumps(json_schema(), indent=2), end="" if markdown else "\n")
