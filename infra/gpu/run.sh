#!/usr/bin/env bash
# Checks and measures this machine's GPU from a checkout, in under 6 minutes: what it has, numerics, the demo's training,
# the workload, serving, PyTorch. Writes OUT/*.json and OUT/*.txt, prints each step's end, and fails if a check fails.
#
#   bash infra/gpu/run.sh KIT OUT    KIT: where the parts of pack.sh were unpacked
#   PYTHON=.venv/bin/python QUICK=1 bash infra/gpu/run.sh KIT OUT
#                                    the same program here, on two logical CPUs; its numbers say nothing about GPUs
#   TORCH_PYTHON=...                 a Python with PyTorch, the peer on the same card; left out without one
set -uo pipefail
kit=$(cd "${1:?run.sh KIT OUT}" && pwd) out=${2:?run.sh KIT OUT}
mkdir -p "$out" && out=$(cd "$out" && pwd)
torch_python=${TORCH_PYTHON:-python3}
if [[ -z ${PYTHON:-} ]]; then
  PYTHON=$kit/py/bin/python3.11
  export PYTHONHOME=$kit/py PYTHONPATH=$kit/site:$PWD LD_LIBRARY_PATH=$kit/py/lib:$kit/cuda
else
  export PYTHONPATH=$PWD SANGAM_LOGICAL_ACCELERATOR=1
fi
export TF_USE_LEGACY_KERAS=1 TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2} PYTHONDONTWRITEBYTECODE=1
sizes=() training=() seconds=()
if [[ -n ${QUICK:-} ]]; then sizes=(--batches 256) training=(--ids 100000) seconds=(--seconds 0.2); fi
failed=()
step() {  # NAME LIMIT_S COMMAND ...: its output goes to OUT/NAME.txt.
  local name=$1 limit_s=$2 started=$SECONDS code
  shift 2
  timeout "$limit_s" "$@" > "$out/$name.txt" 2>&1
  code=$?
  echo "gpu: $name: exit code $code after $(( SECONDS - started )) s"
  grep -E '^(\||ok |wrong |[a-z_]+, rows on|gpu:)' "$out/$name.txt" || tail -n 3 "$out/$name.txt"
  if (( code )); then failed+=("$name"); fi
}
step doctor 60 "$PYTHON" -m sangam.pipelines.checks.gpu
step devices 60 "$PYTHON" -c 'import tensorflow as tf; print("gpu:", tf.config.list_physical_devices("GPU") or "none")'
cp -a "$kit/data/numerics" "$out/"
step numerics 150 "$PYTHON" -m tests.trainer_module.placed "$out/numerics"
step demo 120 "$PYTHON" -m bench.gpu.demo "$kit/data/demo" "$out/demo"
step training 150 "$PYTHON" -m bench.gpu.training "$out/training.json" "${sizes[@]}" "${training[@]}" "${seconds[@]}"
step dense 90 "$PYTHON" -m bench.gpu.dense "$out/dense.json" "${sizes[@]}" "${seconds[@]}"
step serving 60 "$PYTHON" -m bench.gpu.serving "$kit/data/model" "$out/serving.json" "${seconds[@]}"
if env -u PYTHONHOME "$torch_python" -c 'import torch' 2> /dev/null; then
  device=$(env -u PYTHONHOME "$torch_python" -c 'import torch; print("cuda" if torch.cuda.is_available() else "cpu")')
  step torch 120 env -u PYTHONHOME -u LD_LIBRARY_PATH PYTHONPATH="$PWD" "$torch_python" -m bench.gpu.torch_peer "$out/torch.json" \
    --device "$device" "${sizes[@]}" "${seconds[@]}"
else
  echo "gpu: torch: left out, $torch_python has no PyTorch"
fi
if (( ${#failed[@]} )); then echo "gpu: FAILED: ${failed[*]}"; exit 1; fi
