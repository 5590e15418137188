#!/usr/bin/env bash
# Makes .tools (uv, pinned by hash) and .venv (everything in requirements.lock, and this project), from the root of the
# repository. Does nothing, in well under a second, while the lock, the project file and this script are unchanged.
set -euo pipefail

fail() {
  echo "setup: $1" >&2
  exit 1
}

[[ -f requirements.lock && -f requirements.build.lock && -f pyproject.toml ]] || fail "must be run from the root of the repository (got $PWD)"

stamp=.venv/.sangam-setup
wanted=$(sha256sum requirements.lock requirements.build.lock pyproject.toml infra/setup.sh infra/uv.lock.txt)
# The place is part of it: a virtual environment does not survive being moved.
wanted="$PWD"$'\n'"$wanted"
if [[ -f $stamp && -x .venv/bin/python && -x .venv/bin/sangam && $(<"$stamp") == "$wanted" ]]; then
  exit 0
fi

# One installation at a time: `make lint` and `make test` may both find that it is needed.
exec 9>.setup.lock
flock 9
if [[ -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  exit 0
fi

missing=()
for tool in gcc g++ make; do
  command -v "$tool" >/dev/null || missing+=("$tool")
done
[[ ${#missing[@]} -eq 0 ]] || fail "Horovod is compiled here and needs ${missing[*]}; install them (Debian: apt-get install build-essential)"

# Importing TensorFlow Extended without .pyc files costs 25 to 35 s instead of 12.
unset PYTHONDONTWRITEBYTECODE
# These would send uv to another interpreter or environment, or the compiler of Horovod to this run of make.
unset UV_PYTHON UV_PROJECT_ENVIRONMENT VIRTUAL_ENV PYTHONPATH PYTHONHOME MAKEFLAGS MAKELEVEL

# A pyenv shim may be on the PATH and yet not run, so that only a Python that answers counts.
is_python_311() {
  "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1
}

find_python_311() {
  local candidate
  for candidate in "$(command -v python3.11 || true)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.11.*/bin/python3.11; do
    if [[ -n $candidate ]] && is_python_311 "$candidate"; then
      echo "$candidate"
      return
    fi
  done
}

# uv itself may live on any Python that runs.
find_any_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import venv, ensurepip' >/dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done
}

# pip's own settings are left as they are: they may name the index that this machine can reach.
make_tools() {
  local host=$1
  if [[ -x .tools/bin/uv && -x .tools/bin/python && -f .tools/.stamp ]] && cmp -s infra/uv.lock.txt .tools/.stamp; then
    return
  fi
  echo "setup: uv into .tools"
  rm -rf .tools
  "$host" -m venv .tools
  .tools/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r infra/uv.lock.txt ||
    fail "uv could not be installed (see above); is a package index reachable?"
  cp infra/uv.lock.txt .tools/.stamp
}

python=$(find_python_311)
host=${python:-$(find_any_python)}
[[ -n $host ]] || fail "no Python with venv and ensurepip found; install Python 3.11 (Debian: python3-venv)"
make_tools "$host"
uv=.tools/bin/uv

if [[ -z $python ]]; then
  echo "setup: no Python 3.11 on the PATH or under ~/.pyenv/versions; asking uv for one"
  "$uv" python install --quiet 3.11 && python=$("$uv" python find --managed-python 3.11) ||
    fail "no Python 3.11; install it, for example with 'pyenv install 3.11', and run this again"
fi

if ! [[ -x .venv/bin/python ]] || ! is_python_311 .venv/bin/python; then
  "$uv" venv --quiet --clear --python "$python" .venv
fi
rm -f "$stamp"
echo "setup: packages of requirements.lock into .venv (3.5 GB; compiles Horovod once, 2 to 4 minutes)"
"$uv" pip sync --quiet --python .venv/bin/python --require-hashes --build-constraints requirements.build.lock \
  --compile-bytecode requirements.lock
"$uv" pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
[[ -x .venv/bin/sangam ]] || fail "the sangam command was not installed into .venv/bin"
.venv/bin/python -m sangam.trainer_module.native.library >/dev/null || fail "the trainer's operations could not be compiled (see above)"
printf '%s\n' "$wanted" >"$stamp"
echo "setup: done; .venv/bin/sangam --help"
