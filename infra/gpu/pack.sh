#!/usr/bin/env bash
# Packs what run.sh needs on a bare x86-64 machine with an NVIDIA driver into parts of 62 MB: a relocatable Python 3.11,
# TensorFlow 2.16 with cuBLAS, CUDA's runtime and cuDNN's operations without convolutions, TFRA, Horovod (gloo), and a demo's training job and model.
#
#   bash infra/gpu/pack.sh DEMO    from the root of a checkout after `make demo`; DEMO: its folder
#
# Writes .gpu/part.aa and so on, which git ignores. 25 minutes at low priority on 2 cores.
set -euo pipefail
demo=${1:?pack.sh DEMO: the folder of make demo}
[[ -x .venv/bin/python ]] || { echo "pack: run make setup first" >&2; exit 1; }
root=$(cd "$demo/root" && pwd)
job=$(ls "$root"/runs/*/logs/job.json | tail -n 1)
version=$(ls -d "$root"/serving/short_video/[0-9]* | tail -n 1)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
base=$(.venv/bin/python -c 'import sys; print(sys.base_prefix)')
mkdir -p "$tree"/{site/google,cuda,wheels,data/numerics} .gpu
# Everything but what only data steps, Kubeflow, pages and development need.
left_out='playwright|google$|pyarrow|scipy|kubernetes|apache_beam|tfx|clang|tensorflow_data_validation|pandas|sklearn|jedi
|babel|jupyter|matplotlib|fontTools|zstandard|ml_metadata|tensorflow_io_gcs|sqlalchemy|lightkube|kfp|keras_tuner|docker
|notebook|IPython|mypy|[0-9a-f]{4,}.*mypyc|tensorflow_transform|tensorflow_model_analysis|nbconvert|nbformat|debugpy|zmq
|cryptography|botocore|boto|hypothesis|axe|pip$|uvloop|ruff|google_cloud|googleapiclient'
ls "$site" | grep -v -E "^(${left_out//$'\n'/})" | while read -r name; do cp -a "$site/$name" "$tree/site/"; done
# An export records the versions of libraries, whether or not they are here.
for info in "$site"/*.dist-info; do mkdir -p "$tree/site/${info##*/}"; cp "$info/METADATA" "$tree/site/${info##*/}/"; done
cp -a "$site/google/protobuf" "$tree/site/google/"
if [[ -d $site/google/_upb ]]; then cp -a "$site/google/_upb" "$tree/site/google/"; fi
rm -rf "$tree/site/tensorflow/include"
strip --strip-unneeded "$tree/site/tensorflow/libtensorflow_cc.so.2" || true
cp -a "$base" "$tree/py"
rm -rf "$tree"/py/lib/python3.11/{test,idlelib,tkinter,config-*,site-packages/*} "$tree"/py/{lib/libpython3.11.a,share,include}
# The native operations: the machine has no compiler.
.venv/bin/python -m sangam.trainer_module.native.library
.venv/bin/python -m sangam.trainer_module.launch.loopback
mkdir -p "$tree/py/lib"
cp .venv/lib/sangam-*.so "$tree/py/lib/"
.tools/bin/uv pip install --quiet --no-deps --only-binary :all: --target "$tree/wheels" \
  $(grep -oE '^nvidia-(cublas|cudnn|cuda-runtime)-cu12==[0-9.]+' requirements.gpu.lock)
find "$tree/wheels" -name '*.so*' -not -name 'libcudnn_[!o]*' -not -name 'libcudnn_ops_train*' -not -name 'libnvblas*' -exec cp {} "$tree/cuda/" \;
rm -rf "$tree/wheels"
# TensorFlow registers a GPU only if it can open these; nothing of the engine calls them.
for name in libcufft.so.11 libcusolver.so.11 libcusparse.so.12 libcurand.so.10; do
  echo | gcc -shared -x c - -o "$tree/cuda/$name" -Wl,-soname,"$name"
done
# Examples of the numerics, written here because the kit has no Arrow; the demo's job with its files, paths to be set.
.venv/bin/python -c 'import sys, pathlib
from tests.trainer_module.sample_job import write_examples
write_examples(pathlib.Path(sys.argv[1]), minutes_apart=10)' "$tree/data/numerics/data"
to=$tree/data/demo/root
mkdir -p "$to/artifacts"
cp -a "$root/examples" "$to/"
cp -a "$root/artifacts/transform" "$to/artifacts/"
sed "s|$root|@ROOT@|g" "$job" > "$tree/data/demo/job.json"
cp -aL "$version" "$tree/data/model"
find "$tree" -name __pycache__ -type d -prune -exec rm -rf {} +
rm -f .gpu/part.*
tar -C "$tree" -c site py cuda data | nice -n 19 xz -T2 "-${XZ_LEVEL:-4}" -c | split -b 62000000 - .gpu/part.
ls -l .gpu
