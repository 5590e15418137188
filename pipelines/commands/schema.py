"""The command `sangam schema`."""

import json

EPILOG = "Example: sangam schema > ranker.schema.json"


def schema() -> None:
    """Prints the JSON Schema of a spec, for editors."""
    from schemas.loading import json_schema

    print(json.dumps(json_schema(), indent=2))
