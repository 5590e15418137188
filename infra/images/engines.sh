# What docker, podman and buildah are asked, each in its own words. Sourced by build.sh.

# All files have this date, 1980-01-01, whatever the commit: a layer whose files are the same has the same digest. The
# commit's own date is in the label `created`.
SOURCE_DATE_EPOCH=315532800

# Prints the engine to use: the first that works of docker, podman and buildah, or the one asked for.
choose_engine() {
  local engine reasons=''
  for engine in ${1:-docker podman buildah}; do
    if ! command -v "$engine" >/dev/null; then
      reasons+=", $engine is not installed"
    elif [[ $engine != docker ]]; then
      echo "$engine"
      return
    elif ! docker buildx version >/dev/null 2>&1; then
      reasons+=', docker has no buildx'
    elif [[ $(driver) == docker ]] && ! docker info >/dev/null 2>&1; then
      reasons+=", docker's daemon does not answer"
    else
      echo docker
      return
    fi
  done
  fail "ENGINE: nothing to build with (got ${reasons:2}); install docker with buildx, podman or buildah"
}

# Prints the driver of the current builder of buildx.
driver() {
  docker buildx inspect 2>/dev/null | sed -n 's/^Driver: *//p'
}

# Prints the name of a builder of buildx that can date files. docker's own driver cannot: "rewrite-timestamp conflicts
# with unpack".
docker_builder() {
  local name=sangam-images
  if [[ $(driver) != docker ]]; then
    name=$(docker buildx inspect | sed -n '1,/^Name:/s/^Name: *//p')
  elif ! docker buildx inspect "$name" >/dev/null 2>&1; then
    docker buildx create --name "$name" --driver docker-container >/dev/null ||
      fail "docker buildx: its own driver cannot date files, and no builder with the driver docker-container" \
        "could be made (see above)"
    echo "images: made the builder $name of docker buildx, because docker's own driver cannot date files" >&2
  fi
  echo "$name"
}

# digest_of TAG: asks the registry.
digest_of() {
  case $engine in
    docker) docker buildx imagetools inspect --format '{{.Manifest.Digest}}' "$1" ;;
    podman) podman pull --quiet "$1" >/dev/null && podman image inspect --format '{{.Digest}}' "$1" ;;
    buildah) buildah pull --quiet "$1" >/dev/null && buildah inspect --type image --format '{{.FromImageDigest}}' "$1" ;;
  esac
}

# build_image NAME CONTEXT ARCHIVE OPTION...: leaves an image named NAME and an OCI archive of it. `labels` holds more
# options, here and in push_image.
build_image() {
  local name=$1 context=$2 archive=$3
  shift 3
  local options=(--file "$context/infra/images/Dockerfile" "$@" "$context")
  if [[ $engine == docker ]]; then
    docker_build "type=oci,dest=$archive" "${labels[@]}" "${options[@]}"
    return
  fi
  local build=("$engine" build --format oci --timestamp "$SOURCE_DATE_EPOCH" --identity-label=false)
  "${build[@]}" --layers --tag "$name-unlabeled" "${options[@]}" >&2
  # Labels come last: given with the rest, they would be on the image of every step, and a later build would take these
  # from the cache.
  echo "FROM $name-unlabeled" >"$context/labels"
  "${build[@]}" --layers=false --tag "$name" "${labels[@]}" --file "$context/labels" "$context" >&2
  rm -f "$archive"
  "$engine" push --quiet "$name" "oci-archive:$archive" >&2
}

# push_image NAME CONTEXT METADATA OPTION...: pushes what build_image has made, and prints its digest.
push_image() {
  local name=$1 context=$2 metadata=$3
  shift 3
  if [[ $engine == docker ]]; then
    # Everything is in the builder's cache.
    docker_build "type=image,name=$name,push=true" "${labels[@]}" --metadata-file "$metadata" \
      --file "$context/infra/images/Dockerfile" "$@" "$context"
    grep -oE '"containerimage.digest": *"sha256:[0-9a-f]{64}"' "$metadata" | grep -oE 'sha256:[0-9a-f]{64}'
  else
    "$engine" push --quiet --digestfile "$metadata" "$name" "docker://$name" >&2
    grep -oxE 'sha256:[0-9a-f]{64}' "$metadata"
  fi
}

docker_build() {
  local output=$1
  shift
  docker buildx build --builder "$builder" --output "$output,rewrite-timestamp=true,oci-mediatypes=true" \
    --provenance=false --build-arg "SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH" "$@" >&2
}
