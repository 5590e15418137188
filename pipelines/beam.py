"""The Beam runner of every pipeline that Sangam starts. Loads without Beam."""

# Beam's default, `DirectRunner`, first tries to download a Prism binary, without a checksum or a time-out
# (apache_beam/runners/direct/direct_runner.py); this is the runner that it falls back to.
# `in_memory` with one worker: on a few cores, Beam's other modes cost more than they gain.
# `sdk_container_image` keeps TFX from building a source distribution of itself for every step
# (tfx/dsl/components/base/base_beam_executor.py), which takes seconds each.
BEAM_ARGS = (
    "--runner=FnApiRunner",
    "--direct_running_mode=in_memory",
    "--direct_num_workers=1",
    "--sdk_container_image=unused",
)
