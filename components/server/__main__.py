"""The command line of a server: `python -m sangam.components.server DIR --parent-pid PID --address-file FILE ...`."""

from sangam.schemas.host.early_sigterm import exit_on

if __name__ == "__main__":
    exit_on(code=0)  # Before the imports below: nothing is served yet.

import os
import sys

from sangam.components.server.options import parse
from sangam.components.server.process import end, serve
from sangam.schemas.contracts.exit_codes import ExitCode
from sangam.schemas.errors import UserError
from sangam.schemas.host.environment import settle


def main() -> None:
    """Serves until a signal or the parent's end."""
    settle()
    # TensorFlow 2.16 selects its Keras when it is imported.
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    try:
        end(serve(parse(sys.argv[1:])))
    except UserError as error:
        print(error, file=sys.stderr)
        end(ExitCode.MISTAKE)


if __name__ == "__main__":
    main()
