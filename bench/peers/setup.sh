#!/usr/bin/env bash
# Makes .venv-peers: PyTorch, TorchRec, ONNX Runtime, OpenVINO and LightGBM, which the project is compared with and does
# not need; 5 GB. From the root of the repository. Ends well where they cannot be had: one line says so, and the comparison
# goes on without them.
set -euo pipefail

lock=bench/peers/requirements.lock
stamp=.venv-peers/.sangam-setup
[[ -f $lock ]] || { echo "peers: must be run from the root of the repository" >&2; exit 1; }
wanted="$PWD $(sha256sum "$lock" bench/peers/setup.sh)"
if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  exit 0
fi
unset UV_PYTHON UV_PROJECT_ENVIRONMENT VIRTUAL_ENV PYTHONPATH PYTHONHOME
log=$(mktemp)
trap 'rm -f "$log"' EXIT
make_environment() {
  rm -rf .venv-peers
  .tools/bin/uv venv --quiet --python .venv/bin/python .venv-peers &&
    .tools/bin/uv pip sync --quiet --python .venv-peers/bin/python --require-hashes --compile-bytecode "$lock" &&
    .venv-peers/bin/python -W ignore -c 'import fbgemm_gpu, lightgbm, onnx, onnxruntime, openvino, torch, torchrec'
}
echo "peers: packages of $lock into .venv-peers (5 GB)"
if make_environment >"$log" 2>&1; then
  printf '%s\n' "$wanted" >"$stamp"
else
  rm -rf .venv-peers
  echo "peers: the libraries compared with cannot be had here, so they are left out: $(tail -n 1 "$log")"
fi
