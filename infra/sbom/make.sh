#!/usr/bin/env bash
# Writes infra/sbom/licenses.csv (committed): the licenses of what requirements.runtime.lock installs; then tests them.
# With IMAGE=ARCHIVE, an OCI archive of an image, also what that image holds, as CycloneDX, which `make images` does by
# itself.
set -euo pipefail

[[ -f requirements.runtime.lock ]] || { echo "sbom: must be run from the root of the repository (got $PWD)" >&2; exit 1; }
mapfile -t packages < <(sed -nE 's/^([A-Za-z0-9_.-]+)(\[[^]]*\])?==.*/\1/p' requirements.runtime.lock)
.venv/bin/pip-licenses --python .venv/bin/python --with-system --from mixed --format csv --packages "${packages[@]}" \
  --output-file infra/sbom/licenses.csv >/dev/null
.venv/bin/python -m pytest -q -p no:cacheprovider tests/security/test_dependencies.py
echo "wrote infra/sbom/licenses.csv"
if [[ -n ${IMAGE:-} ]]; then
  bill=infra/sbom/$(basename "$IMAGE" .oci.tar).cdx.json
  python3 infra/images/bill.py "$IMAGE" >"$bill"
  echo "wrote $bill"
fi
