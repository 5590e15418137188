"""The one line that is told of a job's failure."""

import pytest

from sangam.components.beam.reasons import POOL_IS_GONE, POOL_LACKS_CODE, advice, last_cause

ESCAPED = (
    'RuntimeError: Request to http://flink:8081/v1/jars/x.jar/run failed with status 400: {"errors":["Internal server '
    'error.","<Exception on server side:\\norg.apache.flink.client.program.ProgramInvocationException: The main method '
    "caused an error: GroupSums\\n\\tat org.apache.flink.client.Program.call(Program.java:1)\\nCaused by: "
    "java.lang.RuntimeException: outer\\n\\t... 6 more\\nCaused by: java.lang.IllegalArgumentException: GroupSums/Sum "
    'were consumed\\nbut never produced\\n\\tat org.apache.beam.Fuser.fuse(Fuser.java:2)\\n"]}'
)
OF_WORKER = """Pipeline x failed in state FAILED: org.apache.flink.runtime.JobException: Recovery is suppressed
\tat org.apache.flink.runtime.Handler.handle(Handler.java:1)
Caused by: java.lang.RuntimeException: Error received from SDK harness for 3: Traceback (most recent call last):
  File "apache_beam/internal/pickler.py", line 1, in loads
    return loads(s)
ModuleNotFoundError: No module named 'sangam'

\tat org.apache.beam.FnApiControlClient.get(FnApiControlClient.java:1)
"""
CHAINED = """RuntimeError: Pipeline job-001 failed in state FAILED: bundle 5 failed: Traceback (most recent call last):
  File "x.py", line 1, in process
    raise ValueError("a")
ValueError: a

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "y.py", line 2, in reraise
    raise RuntimeError("b")
RuntimeError: ValueError: a [while running 'ReadAndWrite']
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ESCAPED, "java.lang.IllegalArgumentException: GroupSums/Sum were consumed but never produced"),
        (OF_WORKER, "ModuleNotFoundError: No module named 'sangam'"),
        (CHAINED, "RuntimeError: ValueError: a [while running 'ReadAndWrite']"),
        ("RuntimeError: CANCELLED: client cancelled", "RuntimeError: CANCELLED: client cancelled"),
        ("RuntimeError: ", "RuntimeError:"),
        ("", "no reason"),
        ("x" * 1000, "x" * 597 + "..."),
    ],
    ids=["escaped", "worker", "chained", "plain", "empty error", "nothing", "long"],
)
def test_the_last_cause_is_told(text: str, reason: str) -> None:
    assert last_cause(text) == reason


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (OF_WORKER, POOL_LACKS_CODE),
        ("CANCELLED: client cancelled", POOL_IS_GONE),
        ("UNAVAILABLE: io exception: Connection refused: localhost:50000", POOL_IS_GONE),
        ("the worker pool has another version of the code (got 1)", "restart it from the image of the step"),
        (CHAINED, ""),
        ("ModuleNotFoundError: No module named 'numpy'", ""),
    ],
)  # fmt: skip
def test_a_pool_that_is_the_reason_is_named(text: str, told: str) -> None:
    assert advice(text) == told
