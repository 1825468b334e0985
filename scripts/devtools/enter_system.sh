#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Run a command inside a Debian system with a virtual display. Called by window.py in namespaces of
# its own: what is mounted and started here ends with it.
# Usage: enter_system.sh SYSTEM COUNT BIND... SECONDS COMMAND...   BIND: source, tab, place inside
set -euo pipefail
system=$1 count=$2
shift 2
mount -t proc proc "$system/proc"
mount -t tmpfs -o mode=755,size=64k tmpfs "$system/dev"
mkdir -p "$system/dev/shm"
for device in null zero full random urandom tty; do
  : >"$system/dev/$device"
  mount --bind "/dev/$device" "$system/dev/$device"
done
ln -s /proc/self/fd "$system/dev/fd"
mount -t tmpfs -o mode=1777 tmpfs "$system/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$system/tmp"
for _ in $(seq "$count"); do
  place=$system${1#*$'\t'}
  mkdir -p "$place"
  mount --bind "${1%%$'\t'*}" "$place"
  shift
done
mkdir -p "$system/tmp/home" "$system/tmp/run"
export HOME=/tmp/home XDG_RUNTIME_DIR=/tmp/run LANG=C.UTF-8 LIBGL_ALWAYS_SOFTWARE=1 DISPLAY=:7
chmod 700 "$system/tmp/run"
chroot "$system" Xvfb "$DISPLAY" -screen 0 1600x1000x24 -nolisten tcp -noreset >/dev/null 2>&1 &
for _ in $(seq 100); do
  [ -S "$system/tmp/.X11-unix/X7" ] && break
  sleep 0.1
done
seconds=$1
shift
status=0
timeout -k 5 "$seconds" chroot "$system" "$@" || status=$?
exit "$status"
