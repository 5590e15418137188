#!/usr/bin/env bash
# Builds both images from what is committed, writes what they hold, pushes them, and prints their digests for
# `sangam deploy`. From the root of the repository, by `make images REGISTRY=...`; infra/README.md says what is needed.
set -euo pipefail
shopt -s inherit_errexit

fail() {
  echo "images: $*" >&2
  exit 1
}

[[ -f requirements.runtime.lock ]] || fail "must be run from the root of the repository (got $PWD)"
here=$(dirname "${BASH_SOURCE[0]}")
source "$here/engines.sh"

registry=${REGISTRY:-}
archives=${ARCHIVES:-}
accelerator=${ACCELERATOR:-gpu}
bases=${BASES:-infra/images/bases.lock}
key=${SIGN_KEY:-}
if [[ -n $registry || -z $archives ]]; then
  [[ $registry =~ ^[a-z0-9][a-z0-9._:/-]*[a-z0-9]$ && $registry != *//* ]] ||
    fail "REGISTRY: no place to push to (got '$registry'); for example make images REGISTRY=registry.example/team," \
      "or ARCHIVES=FOLDER to push nothing"
fi
[[ $accelerator == gpu || $accelerator == cpu ]] || fail "ACCELERATOR: unknown (got '$accelerator'); gpu or cpu"
[[ -z $key ]] || command -v cosign >/dev/null || fail "SIGN_KEY: cosign is not installed (got '$key'); it signs the images"
python3 -c '' 2>/dev/null || fail "python3: not installed; it reads what the images hold"
engine=$(choose_engine "${ENGINE:-}")
builder=
[[ $engine != docker ]] || builder=$(docker_builder)
[[ -z $(git status --porcelain --untracked-files=no) ]] ||
  echo "images: changes that are not committed are left out" >&2

# What the images stand on: a tag to say which, a digest to pin it. Taken once, then committed and reviewed.
tag=docker.io/library/python:3.11-slim-bookworm
# Prints the base that the file names; asks for its digest if the file lacks it.
base() {
  local line digest
  if ! grep -qs "^PYTHON_IMAGE=" "$bases"; then
    digest=$(digest_of "$tag") || fail "$tag: its digest could not be had (see above)"
    echo "PYTHON_IMAGE=$tag@$digest" >>"$bases"
    echo "images: wrote PYTHON_IMAGE into $bases; review and commit it" >&2
  fi
  line=$(grep "^PYTHON_IMAGE=" "$bases")
  [[ $line =~ ^PYTHON_IMAGE=[a-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}$ ]] ||
    fail "$bases: no image by digest (got '$line'); remove the line to have it written anew"
  echo "${line#*=}"
}

commit=$(git rev-parse HEAD)
version=$(sed -n '/^\[project]/,/^\[/s/^version = "\(.*\)"$/\1/p' pyproject.toml)
created=$(TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)
# Without who logs in there.
source=${SOURCE:-$(git remote get-url origin 2>/dev/null | sed -nE 's#^(https|ssh)://([^@/]*@)?#\1://#p' || true)}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/context"
git archive --format=tar HEAD | tar -x -C "$scratch/context"

secrets=()
[[ -z ${PIP_CONFIG_FILE:-} ]] || secrets+=(--secret "id=pip,src=$PIP_CONFIG_FILE")
[[ -z ${UV_CONFIG_FILE:-} ]] || secrets+=(--secret "id=uv,src=$UV_CONFIG_FILE")
[[ -z ${SSL_CERT_FILE:-} ]] || secrets+=(--secret "id=certificates,src=$SSL_CERT_FILE")

# build NAME ACCELERATOR PYTHON_IMAGE: prints the image's name with its digest, if it is pushed.
build() {
  local name=$1 digest title=sangam-$1
  local image=${registry:-localhost}/$title:$commit archive=${archives:-$scratch}/$title.oci.tar
  local bill=${archives:-infra/sbom}/$title.cdx.json
  local options=(--build-arg "ACCELERATOR=$2" --build-arg "PYTHON_IMAGE=$3" --build-arg "COMMIT=$commit" "${secrets[@]}")
  local labels=() label
  for label in "title=$title" "version=$version" "revision=$commit" "created=$created" "licenses=Apache-2.0" \
    ${source:+"source=$source"}; do
    labels+=(--label "org.opencontainers.image.$label")
  done
  build_image "$image" "$scratch/context" "$archive" "${options[@]}"
  python3 "$here/bill.py" "$archive" >"$bill"
  echo "images: wrote $bill" >&2
  [[ -n $registry ]] || return 0
  digest=$(push_image "$image" "$scratch/context" "$scratch/$name.metadata" "${options[@]}") ||
    fail "$name: $engine has told no digest"
  attach "${image%:*}@$digest" "$bill"
  echo "${image%:*}@$digest"
}

# attach IMAGE FILE: puts what an image holds beside it in the registry; signed, with the image, where there is a key.
attach() {
  if [[ -n $key ]]; then
    # Nothing goes to a public log.
    cosign sign --yes --tlog-upload=false --key "$key" "$1" >&2
    cosign attest --yes --tlog-upload=false --key "$key" --type cyclonedx --predicate "$2" "$1" >&2
  elif command -v oras >/dev/null; then
    (cd "$(dirname "$2")" &&
      oras attach --artifact-type application/vnd.cyclonedx+json "$1" "$(basename "$2"):application/vnd.cyclonedx+json" >&2)
  else
    echo "images: $2 is not attached to $1: neither SIGN_KEY (with cosign) nor oras is there" >&2
  fi
}

[[ -z $archives ]] || mkdir -p "$archives"
python=$(base)
pipeline=$(build pipeline cpu "$python")
trainer=$(build trainer "$accelerator" "$python")
[[ -z $registry ]] || echo "--image $pipeline --trainer-image $trainer"
