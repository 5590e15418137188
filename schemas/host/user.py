"""The person at the keyboard."""

import getpass
import os


def current_user() -> str:
    """Returns the name of the user of this process, or `uid N`: a container's user may have no name."""
    try:
        return getpass.getuser()
    except KeyError:
        return f"uid {os.getuid()}"
