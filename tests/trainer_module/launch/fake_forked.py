"""Does what its first argument says: `python -m <this module> tell|fail|stay ...`."""

import os
import sys
import time

from sangam.schemas.host.parent_process import end_with_parent

if __name__ == "__main__":
    match sys.argv[1]:
        case "tell":
            loaded = "tensorflow" if "tensorflow" in sys.modules else ""
            words = [__name__, os.getppid(), ",".join(sys.argv[1:]), os.environ["OF_ALL"], os.environ["OF_ONE"], loaded]
            print(*words, sep="|")
            sys.exit(7)
        case "fail":
            raise ValueError("as told")
        case "stay":
            end_with_parent(int(sys.argv[2]))
            time.sleep(600)
