#!/usr/bin/env bash
# Builds and pushes both images from what is committed, and prints their digests for `sangam deploy`. From the root of
# the repository, by `make images REGISTRY=...`; docker with buildx is needed, and a login to the registry.
set -euo pipefail
shopt -s inherit_errexit

fail() {
  echo "images: $1" >&2
  exit 1
}

registry=${REGISTRY:-}
accelerator=${ACCELERATOR:-gpu}
[[ -f requirements.runtime.lock ]] || fail "must be run from the root of the repository (got $PWD)"
[[ $registry =~ ^[a-z0-9][a-z0-9._:/-]*[a-z0-9]$ && $registry != *//* ]] ||
  fail "REGISTRY: no place to push to (got '$registry'); for example make images REGISTRY=registry.example/team"
[[ $accelerator == gpu || $accelerator == cpu ]] || fail "ACCELERATOR: unknown (got '$accelerator'); gpu or cpu"
command -v docker >/dev/null || fail "docker is not installed; its buildx builds the images"
[[ -z $(git status --porcelain --untracked-files=no) ]] ||
  echo "images: changes that are not committed are left out" >&2

# What the images stand on: a tag to say which, a digest to pin it. Taken once, then committed and reviewed.
bases=infra/images/bases.lock
declare -A tags=(
  [PYTHON_IMAGE]=docker.io/library/python:3.10-slim-bookworm
  [CUDA_BUILD_IMAGE]=docker.io/nvidia/cuda:12.3.2-devel-ubuntu22.04
  [CUDA_IMAGE]=docker.io/nvidia/cuda:12.3.2-runtime-ubuntu22.04
)
if [[ ! -f $bases ]]; then
  for name in PYTHON_IMAGE CUDA_BUILD_IMAGE CUDA_IMAGE; do
    digest=$(docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "${tags[$name]}") ||
      fail "${tags[$name]}: its digest could not be had (see above)"
    echo "$name=${tags[$name]}@$digest"
  done >"$bases.new"
  mv "$bases.new" "$bases"
  echo "images: wrote $bases; review and commit it" >&2
fi
pinned=()
for name in "${!tags[@]}"; do
  line=$(grep "^$name=" "$bases") || fail "$bases: lacks $name; remove the file to have it written anew"
  [[ $line =~ ^$name=[a-z0-9][A-Za-z0-9._:/-]*@sha256:[0-9a-f]{64}$ ]] ||
    fail "$bases: no image by digest (got '$line'); remove the file to have it written anew"
  pinned+=(--build-arg "$line")
done

commit=$(git rev-parse HEAD)
# Files, layers and the image's own date are those of the commit.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

build() {
  local name=$1
  shift
  git archive --format=tar HEAD |
    docker buildx build --file "infra/images/$name/Dockerfile" --metadata-file "$scratch/$name.json" \
      --output "type=image,name=$registry/sangam-$name:$commit,push=true,rewrite-timestamp=true" \
      --provenance=false --build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" --build-arg "COMMIT=$commit" \
      "${pinned[@]}" "$@" - >&2
  local digest
  digest=$(grep -oE '"containerimage.digest": *"sha256:[0-9a-f]{64}"' "$scratch/$name.json" | grep -oE 'sha256:[0-9a-f]{64}') ||
    fail "$name: buildx has told no digest"
  echo "$registry/sangam-$name@$digest"
}

pipeline=$(build pipeline)
trainer=$(build trainer --build-arg "ACCELERATOR=$accelerator")
echo "--image $pipeline --trainer-image $trainer"
