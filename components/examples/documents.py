"""Reads the JSON files of an Examples artifact."""

import posixpath
from typing import TypeVar

import pydantic
from tfx.dsl.io import fileio

from sangam.schemas.errors import UserError

_Model = TypeVar("_Model", bound=pydantic.BaseModel)


def read_document(uri: str, name: str, kind: type[_Model]) -> _Model:
    """Reads a file of an artifact.

    Args:
        uri: address of the artifact.
        name: name of the file.
        kind: class of the file's content.

    Raises:
        UserError: there is none, or another version wrote it.
    """
    path = posixpath.join(uri, name)
    if not fileio.exists(path):
        raise UserError(
            f"{path}: no such file; these examples are incomplete, or of another version: run the pipeline again"
        )
    with fileio.open(path, "r") as file:
        text = file.read()
    try:
        return kind.model_validate_json(text)
    except pydantic.ValidationError as error:
        first = str(error).splitlines()[0]
        raise UserError(f"{path}: was not written by this version (got: {first}); run the pipeline again") from error
