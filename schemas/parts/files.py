"""Files that parts of others read, such as codebooks: their content counts, by its digest in the spec."""

import hashlib
from pathlib import Path
from typing import Annotated

from pydantic import Field

from sangam.schemas.errors import UserError
from sangam.schemas.parts.base import FrozenModel
from sangam.schemas.parts.importing import folders


class PinnedFile(FrozenModel):
    """A file of a part. The spec holds its digest: another content is refused until the spec says so, and then counts
    like any edited key. Rows of a table that were learned for the old content would mean something else."""

    path: Annotated[str, Field(min_length=1, max_length=1000)]
    """Path, relative to the folder of the spec, or absolute. Every machine that runs a step reads it there."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """SHA-256 of the content, as `sha256sum` prints it."""

    def read(self) -> bytes:
        """Returns the content.

        Raises:
            UserError: the file is missing, unreadable or another one.
        """
        places = [Path(folder, self.path) for folder in folders()] or [Path(self.path)]
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            looked = ", ".join(map(str, dict.fromkeys(places)))
            raise UserError(f"path: no such file (got '{self.path}'); put it beside the spec (looked for {looked})")
        try:
            content = found.read_bytes()
        except OSError as error:
            raise UserError(f"path: cannot be read: {error.strerror} (got {found}); check its permissions") from None
        digest = hashlib.sha256(content).hexdigest()
        if digest != self.sha256:
            raise UserError(
                f"sha256: is not the digest of {found} (got {self.sha256}); write {digest} if its content is meant"
            )
        return content
