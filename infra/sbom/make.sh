#!/usr/bin/env bash
# Writes infra/sbom/licenses.csv (committed) and infra/sbom/sangam.cdx.json (CycloneDX; not committed, it is full of
# addresses) about what requirements.runtime.lock installs, which is what the images hold; then tests the licences.
set -euo pipefail

[[ -f requirements.runtime.lock ]] || { echo "sbom: must be run from the root of the repository (got $PWD)" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

.tools/bin/uv venv --quiet --python .venv/bin/python "$scratch/venv"
.tools/bin/uv pip sync --quiet --python "$scratch/venv/bin/python" --require-hashes \
  --build-constraints requirements.build.lock requirements.runtime.lock
.venv/bin/pip-licenses --python "$scratch/venv/bin/python" --with-system --from mixed --format csv \
  --output-file infra/sbom/licenses.csv >/dev/null
.venv/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --short-PURLs \
  --output-reproducible --output-format JSON --output-file infra/sbom/sangam.cdx.json "$scratch/venv/bin/python"
.venv/bin/python -m pytest -q -p no:cacheprovider tests/security/test_dependencies.py
echo "wrote infra/sbom/licenses.csv and infra/sbom/sangam.cdx.json"
