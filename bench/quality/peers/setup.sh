#!/usr/bin/env bash
# Makes .venv-trees: LightGBM, XGBoost and CatBoost, which docs/quality.md compares with and the project does not need;
# 0.8 GB. From the root of the repository. Ends well where they cannot be had: one line says so, and the comparison goes
# on without them.
set -euo pipefail

lock=bench/quality/peers/requirements.lock
stamp=.venv-trees/.sangam-setup
[[ -f $lock ]] || { echo "quality peers: must be run from the root of the repository" >&2; exit 1; }
wanted="$PWD $(sha256sum "$lock" bench/quality/peers/setup.sh)"
if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  exit 0
fi
unset UV_PYTHON UV_PROJECT_ENVIRONMENT VIRTUAL_ENV PYTHONPATH PYTHONHOME
log=$(mktemp)
trap 'rm -f "$log"' EXIT
make_environment() {
  rm -rf .venv-trees
  .tools/bin/uv venv --quiet --python .venv/bin/python .venv-trees &&
    .tools/bin/uv pip sync --quiet --python .venv-trees/bin/python --require-hashes "$lock" &&
    .venv-trees/bin/python -W ignore -c 'import catboost, lightgbm, xgboost'
}
echo "quality peers: packages of $lock into .venv-trees (0.8 GB)"
if make_environment >"$log" 2>&1; then
  printf '%s\n' "$wanted" >"$stamp"
else
  rm -rf .venv-trees
  echo "quality peers: the libraries compared with cannot be had here, so they are left out: $(tail -n 1 "$log")"
fi
