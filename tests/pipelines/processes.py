"""What tests ask about processes."""

import psutil


def is_running(pid: int) -> bool:
    """Returns whether a process still does anything; one that is dead but not yet collected does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
