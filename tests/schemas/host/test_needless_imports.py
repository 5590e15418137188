"""What a process leaves out cannot be imported there, and what is imported already stays."""

import subprocess
import sys

import pytest


def test_what_is_left_out_cannot_be_imported_and_what_is_loaded_stays() -> None:
    code = (
        "import sys, types\n"
        "sys.modules['keras'] = loaded = types.ModuleType('keras')\n"
        "from sangam.schemas.host.needless_imports import leave_out_needless\n"
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


@pytest.mark.long
@pytest.mark.slow
def test_a_pipeline_imports_what_it_names_of_tfx_and_no_client_of_a_cloud() -> None:
    code = (
        "import sys\n"
        "from sangam.schemas.host.needless_imports import leave_out_needless_of_tfx\n"
        "leave_out_needless_of_tfx()\n"
        "import sangam.pipelines.local.runner, sangam.pipelines.pipeline\n"
        "from tfx.components.evaluator import constants\n"
        "print(constants.ARTIFACT_PROPERTY_BLESSED_KEY)\n"
        "found = {'kubernetes', 'google.cloud.bigquery', 'google.cloud.pubsub', 'keras', 'tfx.components.trainer'}\n"
        "print(sorted(name for name in found if sys.modules.get(name)))\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["blessed", "[]"]
