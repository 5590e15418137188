#!/bin/sh
# Takes out of an environment what is read only by who builds against it, tests it, or installed it. Used by ./Dockerfile.
set -eu
environment=$1
packages=$environment/lib/python3.11/site-packages

rm -rf "$packages/tensorflow/include" "$packages/pyarrow/include" "$packages/numpy/core/include"
find "$packages" -type d -name tests -prune -exec rm -rf {} +
for package in apache_beam tfx keras tensorflow_model_analysis; do
  [ ! -e "$packages/$package" ] || find "$packages/$package" -name '*_test.py' -delete
done
# uv's notes about what it built, with dates, also from the lists of files with their digests.
rm -f "$packages"/*.dist-info/uv_cache.json "$packages"/*.dist-info/uv_build.json
sed -i '/\.dist-info\/uv_[a-z]*\.json,/d' "$packages"/*.dist-info/RECORD
for library in "$packages"/horovod/tensorflow/*.so; do
  [ ! -e "$library" ] || strip --strip-unneeded "$library"
done
# uv's lock, which anybody may write to.
rm -f "$environment/.lock"
