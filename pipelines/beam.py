"""How Beam runs wherever this project starts it.

Loads without Beam: whoever has no pipeline to run needs none.
"""

# Beam's default, `DirectRunner`, first tries to download a Prism binary, without a checksum or a time-out
# (apache_beam/runners/direct/direct_runner.py); this is the runner that it falls back to.
# `in_memory` with one worker: on a handful of cores, Beam's other modes cost more than they give.
# `sdk_container_image` spares the source distribution of itself that TFX otherwise builds for every step
# (tfx/dsl/components/base/base_beam_executor.py), seconds each.
BEAM_ARGS = (
    "--runner=FnApiRunner",
    "--direct_running_mode=in_memory",
    "--direct_num_workers=1",
    "--sdk_container_image=unused",
)
