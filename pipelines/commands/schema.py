"""The command `sangam schema`."""

from typing import Annotated

import typer

EPILOG = "Example: sangam schema > .sangam.schema.json"


def schema(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print tables of all keys, for people.")] = False,
) -> None:
    """Prints the JSON Schema of a spec, for editors.

    Write it beside the spec, whose first line names it: # yaml-language-server: $schema=.sangam.schema.json.
    `sangam init` does both. docs/spec.md has the settings of editors.
    """
    from sangam.pipelines.provenance import VERSION
    from sangam.schemas.loading import json_schema
    from sangam.schemas.loading.editors import editor_schema_text
    from sangam.schemas.loading.reference import reference

    print(reference(json_schema()) if markdown else editor_schema_text(VERSION), end="")
