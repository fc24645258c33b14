#!/usr/bin/env bash
# Measures Kring beside its peers, all on 127.0.0.1, in some ten minutes.
#
#   bench/run.sh [area…] [--json FILE] [--rounds N] [--duration D] [--traces DIR] [--profiles DIR]
#
# Areas: hit, peer, batch, miss, pools, stampede, trace. Default: all. Installs
# nginx, varnish and redis-server (Debian) if they are missing. Prints medians of
# rounds in which the contestants take turns, and ends everything that it started.
# Figures mean something only on a machine that does nothing else.
set -euo pipefail

here=$PWD
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
# shellcheck source=scripts/need.sh
source scripts/need.sh

PATH=$PATH:/usr/sbin
export RUNLEVEL=1 # keeps Debian's packages from starting a service
need go flock taskset nginx redis-server
command -v varnishd >/dev/null || need varnish # the package's program has another name

mkdir -p bench/out
exec 9>bench/out/lock
if ! flock -n 9; then
	echo "run.sh: the bench is running already" >&2
	exit 1
fi
rm -rf /dev/shm/kring-bench-* # leftovers of a killed run

scripts/build.sh bench/out/kring
go build -buildvcs=false -tags nomsgpack -o bench/out/bench ./bench
bench=$root/bench/out/bench kring=$root/bench/out/kring
cd "$here" # the arguments' paths are relative to it
exec "$bench" --kring "$kring" --dir "$root/bench/out/run" --traces "$root/../shared/traces" "$@"
