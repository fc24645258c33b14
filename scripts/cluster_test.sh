#!/usr/bin/env bash
# Tests scripts/cluster.sh, in a copy of the checkout whose path has a space.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/need.sh
source "$root/scripts/need.sh"
# shellcheck source=scripts/prove.sh
source "$root/scripts/prove.sh"
need go git curl jq flock setsid

work=$(mktemp -d)
copy="$work/a checkout"
stranger=

# shellcheck disable=SC2329 # called by the trap
clean_up() {
	local status=$?
	trap - EXIT INT TERM
	"$copy/scripts/cluster.sh" down >/dev/null 2>&1 || true
	if [[ $stranger ]]; then kill "$stranger" 2>/dev/null || true; fi
	rm -rf "$work"
	exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

mkdir "$copy"
(cd "$root" && git -c safe.directory='*' ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy")
choose_ports 18001
base=$KRING_BASE_PORT
state="$copy/.kring/port-$base"
cd /

# run ARG…: runs cluster.sh with its output in $out, its errors in $err, and its
# exit code in $code. The pipe ends only if no background process holds it.
run() {
	code=0
	out=$(timeout 300 "$copy/scripts/cluster.sh" "$@" 2>"$work/err") || code=$?
	err=$(<"$work/err")
}
lines() { grep -c . <<<"$1" || true; }
pids() { cat "$state"/*.pid | tr '\n' ' '; }
ready() { ask -f -o "$work/answer" "http://127.0.0.1:$((base + $1 - 1))/readyz"; }
members() { ask "http://127.0.0.1:$((base + $1 - 1))/v1/cluster" | jq '.members | length'; }
# living PID…: prints how many of the processes have not ended.
living() {
	local pid n=0
	for pid in "$@"; do
		if readlink "/proc/$pid/exe" >/dev/null; then n=$((n + 1)); fi
	done
	echo "$n"
}

run
prove "no command: usage, exit code 2" "$code" 2 "$err" "usage: *"
run frobnicate
prove "an unknown command: one line that names it, exit code 2" "$code" 2 "$err" '*"frobnicate"*' "$(lines "$err")" 1
run up 0
prove "up 0: one line that names the value" "$code" 2 "$err" '*"0"*' "$(lines "$err")" 1
run kill 1 2
prove "too many arguments: exit code 2" "$code" 2 "$(lines "$err")" 1
KRING_BASE_PORT=80a run status
prove "a base port that is none: one line that names it" "$code" 2 "$err" '*KRING_BASE_PORT*"80a"*' "$(lines "$err")" 1
run status
prove "status of nothing: exit code 1" "$code" 1 "$err" "*nothing is running*"
run down
prove "down of nothing is no error" "$code" 0 "$out" "*nothing is running*"

# An invalid setting of all nodes: the origin starts, and must be stopped.
KRING_CACHE_MAX_BYTES=12XB run up
prove "nodes that cannot start: exit code 1 and the node's own line" "$code" 1 "$err" "*kring-*did not start:*12XB*"
prove "and the others are stopped" "$(yes port_in_use $((base + 99)))" no "$(yes test -e "$state/nodes")" no

# An interrupted build: a go that never ends, in a session whose processes all
# get the signal, as when a terminal closes.
mkdir "$work/slow"
printf '#!/bin/sh\ntouch "%s/building"\nexec sleep 300\n' "$work" >"$work/slow/go"
chmod +x "$work/slow/go"
PATH="$work/slow:$PATH" setsid "$copy/scripts/cluster.sh" up >"$work/up0" 2>&1 &
first=$!
until [[ -e $work/building ]]; do sleep 0.05; done
kill -HUP -- "-$first"
code=0
wait "$first" || code=$?
prove "an interrupted build leaves nothing" "$code" 130 "$(yes test -e "$copy/.kring")" no

# An interruption while the nodes start: they must be stopped.
setsid "$copy/scripts/cluster.sh" up >"$work/up0" 2>&1 &
first=$!
until port_in_use $((base + 99)); do sleep 0.05; done
kill -HUP "$first"
code=0
wait "$first" || code=$?
prove "an interrupted start stops what it has started" "$code" 130 \
	"$(yes port_in_use $((base + 99)))$(yes port_in_use "$base")" nono "$(yes test -e "$state/nodes")" no

timeout 300 "$copy/scripts/cluster.sh" up >"$work/up1" 2>&1 &
first=$!
timeout 300 "$copy/scripts/cluster.sh" up >"$work/up2" 2>&1 &
second=$!
codes=0
wait "$first" || codes=$?
wait "$second" || codes=$?
prove "up twice at once: one starts three nodes, the other says that they run" "$codes" 0 \
	"$(cat "$work"/up? | grep -c 'already running')" 1 "$(cat "$work"/up? | grep -c '3 nodes and the origin are ready')" 1
prove "each node is ready" "$(yes ready 1)$(yes ready 2)$(yes ready 3)" yesyesyes
prove "the program that runs is in bin/, too" "$(yes cmp -s "$copy/bin/kring" "$state/kring")" yes \
	"$("$copy/bin/kring" version)" "kring *"
run status
prove "status: the origin and three nodes" "$code" 0 "$(lines "$out")" 4 "$(grep -c 'running, ready' <<<"$out")" 4

read -ra before <<<"$(pids)"
run up
prove "another up: already running, the same processes" "$code" 0 "$out" "*already running*" "$(pids)" "${before[*]} "
run up 5
prove "up with another number: refused" "$code" 1 "$err" "*already running with 3*"
(
	unset KRING_BASE_PORT
	run status
	echo "$code $out"
) >"$work/bare"
prove "without KRING_BASE_PORT the only cluster is meant" "$(<"$work/bare")" "0 *127.0.0.1:$base *"

run kill 7
prove "a node that is none: exit code 2, one line" "$code" 2 "$err" '*"7"*' "$(lines "$err")" 1
run kill 2
prove "kill" "$code" 0 "$(living "${before[@]}")" 3 "$(yes ready 2 2>/dev/null)" no
run kill 2
prove "kill what is dead: exit code 1" "$code" 1 "$err" "*kring-2 is not running*"
run status
prove "status names the dead" "$code" 0 "$out" "*kring-2*dead, not ready*"
run restart 2
prove "restart what was killed" "$code" 0 "$(yes ready 2)" yes
pid=$(<"$state/kring-1.pid")
run restart 1
prove "restart what runs" "$code" 0 "$(yes ready 1)" yes "$(living "$pid")" 0

run pause 3
pid=$(<"$state/kring-3.pid")
prove "pause" "$code" 0 "$(cut -d ' ' -f 3 "/proc/$pid/stat")" T
run resume 3
prove "resume" "$code" 0 "$(yes ready 3)" yes "$(<"$state/kring-3.pid")" "$pid"
run logs 1
prove "logs" "$code" 0 "$(lines "$out")" "[1-9]*"

run add
prove "add: a fourth node, in the list of all nodes" "$code" 0 "$(yes ready 4)" yes \
	"$(members 1)$(members 2)$(members 3)$(members 4)" 4444

cp "$state/kring" "$work/kring"
read -ra before <<<"$(pids)"
run kill 1
run pause 2
run down
prove "down, with one node dead and one paused" "$code" 0 "$(living "${before[@]}")" 0
prove "nothing is left behind" "$(yes test -e "$copy/.kring")" no "$(yes port_in_use "$base")$(yes port_in_use $((base + 99)))" nono

"$work/kring" origin --listen "127.0.0.1:$((base + 1))" >"$work/stranger" 2>&1 &
stranger=$!
until port_in_use $((base + 1)); do sleep 0.05; done
run up
prove "a port in use: one line that names it, nothing started" "$code" 1 "$err" "*$((base + 1))*kring-2*in use*" \
	"$(lines "$err")" 1 "$(yes port_in_use "$base")$(yes port_in_use $((base + 99)))" nono

mkdir -p "$state"
echo 1 >"$state/nodes"
echo "$stranger" >"$state/kring-1.pid"
run down
prove "a pid that another process has got is left alone" "$code" 0 "$(living "$stranger")" 1
kill "$stranger"
wait "$stranger" || true
stranger=

# A reader that leaves early: the demo stops its cluster.
timeout 300 "$copy/scripts/demo.sh" 2>"$work/err" | head -n 5 >"$work/shown" || true
prove "demo.sh | head: nothing is left behind" "$(wc -l <"$work/shown")" 5 "$(yes test -e "$copy/.kring")" no \
	"$(yes port_in_use "$base")$(yes port_in_use $((base + 99)))" nono
code=0
"$copy/scripts/demo.sh" --help >"$work/shown" || code=$?
prove "demo.sh --help: how to use it, and nothing else" "$code" 0 "$(head -n 1 "$work/shown")" "usage: scripts/demo.sh"
code=0
"$copy/scripts/demo.sh" --fast 2>"$work/err" || code=$?
prove "demo.sh with an argument: one line that names it" "$code" 2 "$(<"$work/err")" '*"--fast"*' "$(wc -l <"$work/err")" 1

verdict
