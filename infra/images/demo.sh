#!/usr/bin/env bash
# Runs the demo in the file system of an image, as a pod that is locked down would: user 10001, everything read-only but
# /tmp, /dev/shm and one volume, no capability. `demo.sh ROOT COMMIT`; used by check.sh.
set -euo pipefail

root=$1
commit=$2
volume=$(mktemp -d)
trap 'rm -rf "$volume"' EXIT
chown 10001:10001 "$volume"
# As in a pod: Horovod ends with a segmentation fault where the machine's own name has no address.
printf '127.0.0.1 localhost\n127.0.0.1 %s\n' "$(uname -n)" >"$volume/hosts"
variables=()
while read -r pair; do
  variables+=("$pair")
done < <(sed -n '/^ENV PATH=/,/[^\\]$/p' infra/images/Dockerfile | sed -E 's/^ENV//; s/ *\\$//; s/^ +//')

# inside COMMAND...: in its own view of the file system and with its own processes, which end with it.
inside() {
  # shellcheck disable=SC2016
  unshare --mount --pid --ipc --fork --kill-child bash -euc '
    root=$1 volume=$2
    shift 2
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount -o remount,bind,ro "$root"
    mount -t proc proc "$root/proc"
    mount --bind /sys "$root/sys"
    mount -o remount,bind,ro "$root/sys"
    mount --bind "$volume/hosts" "$root/etc/hosts"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    mkdir -m 1777 "$root/dev/shm"
    for device in null zero random urandom; do
      touch "$root/dev/$device"
      mount --bind "/dev/$device" "$root/dev/$device"
    done
    mount -t tmpfs -o mode=755 tmpfs "$root/mnt"
    mkdir "$root/mnt/volume"
    mount --bind "$volume" "$root/mnt/volume"
    exec chroot "$root" /usr/bin/setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs \
      --inh-caps=-all --ambient-caps=-all --bounding-set=-all /usr/bin/env --chdir=/opt/sangam -i "$@"
  ' bash "$root" "$volume" "${variables[@]}" "$@"
}

child_of() {
  local child
  read -r child _ <"/proc/$1/task/$1/children" || true
  echo "$child"
}

# end PID: asks what a call of `inside` runs to end; returns its exit code.
end() {
  # Below the shell of the function and unshare.
  kill -TERM "$(child_of "$(child_of "$1")")"
  wait "$1"
}

say() {
  echo "  $* ($SECONDS s)"
}

SECONDS=0
[[ $(inside sangam version) == *" $commit" ]] || { echo "sangam version: does not end with $commit" >&2; exit 1; }
inside sangam --help >/dev/null
say "version and help"
! inside touch /opt/sangam/new 2>/dev/null || { echo "/opt/sangam: can be written to" >&2; exit 1; }
inside python -c '
import importlib, pkgutil
import sangam
for module in pkgutil.walk_packages(sangam.__path__, "sangam."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
' 2>"$volume/imports.log" || { tail -5 "$volume/imports.log" >&2; exit 1; }
say "every module imported"
inside sangam demo /mnt/volume/demo --ui --host 0.0.0.0 --port 0 >"$volume/demo.log" 2>&1 &
demo=$!
for _ in $(seq 1800); do
  ! grep -q "http://" "$volume/demo.log" || break
  kill -0 "$demo" 2>/dev/null || { tail -5 "$volume/demo.log" >&2; exit 1; }
  sleep 0.2
done
grep -q "http://" "$volume/demo.log" || { echo "sangam demo --ui: no address after 360 s" >&2; exit 1; }
pushed=$(echo "$volume"/demo/*/serving/short_video)
grep -q "\"git_commit\": \"$commit\"" "$pushed"/*/manifest.json ||
  { echo "manifest.json: does not name $commit" >&2; exit 1; }
end "$demo" || { echo "sangam demo --ui: ended with $? on SIGTERM" >&2; exit 1; }
say "the demo, pushed with the commit, its pages shown"
inside sangam serve "/mnt/volume/${pushed#"$volume"/}" --rest-port 0 --grpc-port 0 \
  --address-file /mnt/volume/address >"$volume/serve.log" 2>&1 &
server=$!
for _ in $(seq 600); do
  [[ ! -s $volume/address ]] || break
  kill -0 "$server" 2>/dev/null || { tail -5 "$volume/serve.log" >&2; exit 1; }
  sleep 0.2
done
say "server at $(tr '\n' ' ' <"$volume/address")"
end "$server" || { echo "sangam serve: ended with $? on SIGTERM" >&2; exit 1; }
say "and ended on SIGTERM"
