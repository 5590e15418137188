"""What a training process leaves out cannot be imported there, and what is imported already stays."""

import subprocess
import sys


def test_what_is_left_out_cannot_be_imported_and_what_is_loaded_stays() -> None:
    code = (
        "import sys, types\n"
        "sys.modules['keras'] = loaded = types.ModuleType('keras')\n"
        "from schemas.needless_imports import leave_out_needless\n"
        "leave_out_needless()\n"
        "import keras\n"
        "assert keras is loaded\n"
        "for name in ('pandas', 'scipy', 'googleapiclient'):\n"
        "    try:\n"
        "        __import__(name)\n"
        "    except ImportError:\n"
        "        print(name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pandas", "scipy", "googleapiclient"]
