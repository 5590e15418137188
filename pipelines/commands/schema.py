"""The command `sangam schema`."""

from pathlib import Path
from typing import Annotated

import typer

EPILOG = "Example: sangam schema spec.yaml > .sangam.schema.json"


def schema(
    spec: Annotated[
        Path | None, typer.Argument(metavar="[SPEC]", help="Spec whose parts the schema has too; none: the product's.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print tables of all keys, for people.")] = False,
) -> None:
    """Prints the JSON Schema of a spec, for editors.

    Write it beside the spec, whose first line names it: # yaml-language-server: $schema=.sangam.schema.json.
    `sangam init` does both. docs/spec.md has the settings of editors.
    """
    from sangam.pipelines.provenance import VERSION
    from sangam.schemas.loading import json_schema, load_spec
    from sangam.schemas.loading.editors import editor_schema_text
    from sangam.schemas.loading.reference import reference

    parts = load_spec(spec).parts if spec else ()
    print(reference(json_schema(parts)) if markdown else editor_schema_text(VERSION, parts), end="")
