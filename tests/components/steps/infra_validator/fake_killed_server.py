"""A server that the kernel kills at its start, as for want of memory."""

import os
import signal

if __name__ == "__main__":
    os.kill(os.getpid(), signal.SIGKILL)
