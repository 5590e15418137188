#!/usr/bin/env bash
# Builds the images of the pipeline and of the trainer (gpu) from what is committed, twice, with buildah, on a base made
# of Debian's packages and the Python 3.11 of .venv; compares them; and runs the demo in the second, locked down as in a pod. By
# `make images-check`, once per release: about an hour and a half on 2 cores, 30 GB below FOLDER. Archives of the images stay there.
set -euo pipefail
shopt -s inherit_errexit

fail() {
  echo "images-check: $1" >&2
  exit 1
}

[[ -f requirements.runtime.lock ]] || fail "must be run from the root of the repository (got $PWD)"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${FOLDER:-build/images-check}
gigabytes=30
missing=()
[[ $EUID == 0 ]] || missing+=("root, for mounts and other users' files")
for tool in buildah debootstrap; do
  command -v "$tool" >/dev/null || missing+=("$tool (Debian: apt-get install --no-install-recommends $tool)")
done
.venv/bin/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null ||
  missing+=("Python 3.11 in .venv (make setup): it becomes the base's")
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
free=$(df --output=avail -BG "$folder" | tail -1 | tr -dc 0-9)
((free >= gigabytes)) || missing+=("$gigabytes GB below $folder (got $free; FOLDER=... names another place)")
[[ ${#missing[@]} -eq 0 ]] || fail "lacks $(printf '%s; ' "${missing[@]}" | sed 's/; $//')"

# What the interpreters of Python 3.11 are linked to.
LIBRARIES=libbz2-1.0,libexpat1,libffi8,liblzma5,libncursesw6,libreadline8,libsqlite3-0,libssl3,libuuid1,zlib1g
export BUILDAH_ISOLATION=chroot
commit=$(git rev-parse HEAD)

# storage NAME: the engine's images lie there from now on.
storage() {
  export CONTAINERS_STORAGE_CONF=$folder/$1/storage.conf
  mkdir -p "$folder/$1"
  printf '[storage]\ndriver = "overlay"\ngraphroot = "%s"\nrunroot = "%s"\n' "$folder/$1/images" "$folder/$1/run" \
    >"$CONTAINERS_STORAGE_CONF"
}

# Like python:3.11-slim-bookworm, which needs a registry: Debian, and Python in /usr/local.
make_base() {
  local root=$folder/root prefix container
  prefix=$(.venv/bin/python -c 'import sys; print(sys.base_prefix)')
  rm -rf "$root"
  debootstrap --variant=minbase --include="ca-certificates,netbase,tzdata,$LIBRARIES" bookworm "$root" >"$folder/base.log" ||
    fail "debootstrap failed: see $folder/base.log"
  # This machine's, which debootstrap has copied.
  rm "$root/etc/resolv.conf" "$root/etc/hostname"
  tar --create --directory "$prefix" --exclude=__pycache__ --exclude='*.a' --exclude=./lib/python3.11/test \
    --exclude=./share --exclude='./lib/python3.11/site-packages/*' --exclude='./bin/pip*' . |
    tar --extract --directory "$root/usr/local" --no-same-owner
  cp -r "$prefix"/lib/python3.11/site-packages/pip{,-*} "$root/usr/local/lib/python3.11/site-packages/"
  sed -i "s#$prefix#/usr/local#g" "$root"/usr/local/lib/python3.11/_sysconfigdata*.py
  chroot "$root" ldconfig
  chroot "$root" /usr/local/bin/python3.11 -c 'import bz2, ctypes, hashlib, lzma, readline, sqlite3, ssl, uuid, zlib' ||
    fail "Python 3.11 of $prefix does not run on Debian 12 alone (see above)"
  storage base
  container=$(buildah from scratch)
  buildah config --env PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin "$container"
  tar --create --directory "$root" . >"$folder/root.tar"
  buildah add --quiet "$container" "$folder/root.tar" / >/dev/null
  rm -rf "$root" "$folder/root.tar" "$folder/base.oci.tar"
  buildah commit --quiet --rm "$container" "oci-archive:$folder/base.oci.tar:base" >/dev/null
}

# build_all NAME: into a folder of archives, with nothing left of an earlier build.
build_all() {
  local image
  [[ $(git rev-parse HEAD) == "$commit" ]] || fail "HEAD: has moved (got $(git rev-parse HEAD)); run it again"
  storage "store-$1"
  image=$(buildah pull --quiet "oci-archive:$folder/base.oci.tar")
  buildah tag "$image" localhost/sangam-base:debian
  echo "PYTHON_IMAGE=localhost/sangam-base:debian@$(buildah inspect --type image --format '{{.FromImageDigest}}' "$image")" \
    >"$folder/bases-$1"
  rm -rf "${folder:?}/$1"
  REGISTRY='' ACCELERATOR=gpu ENGINE=buildah ARCHIVES=$folder/$1 BASES=$folder/bases-$1 bash "$here/build.sh" \
    >"$folder/build-$1.log" 2>&1 || fail "build $1 failed: see $folder/build-$1.log"
}

forget() {
  storage "$1"
  buildah rm --all >/dev/null
  buildah rmi --all --force >/dev/null
  rm -rf "${folder:?}/$1"
}

SECONDS=0
echo "images-check: base"
make_base
forget base
for round in first second; do
  echo "images-check: $round build ($SECONDS s)"
  build_all "$round"
  [[ $round == first ]] || forget "store-$round"
done
echo "images-check: comparing ($SECONDS s)"
python3 "$here/check.py" "$folder/first" "$folder/second"
rm -rf "${folder:?}/second"
echo "images-check: the demo in the trainer's image ($SECONDS s)"
storage store-first
container=$(buildah from --pull-never "localhost/sangam-trainer:$commit")
bash "$here/demo.sh" "$(buildah mount "$container")" "$commit"
forget store-first
echo "images-check: done in $SECONDS s; $folder/first has the images"
