#!/usr/bin/env bash
# Runs a local cluster: N nodes on 127.0.0.1:8001… and the demo origin on
# 127.0.0.1:8100. See usage() below.
#
# State (pids, logs, a copy of the binary, the generated configuration) is in
# .kring/ of the checkout, or in .kring/port-PORT/ for a cluster on other ports.
# bin/kring is the last build. A pid gets a signal only after /proc has shown
# that it is the process that this script started: same binary, same node id.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/need.sh
source "$root/scripts/need.sh"

default_port=8001
max_nodes=64
ready_tries=300 # of 0.1 s
# A node has 15 s to drain (handoff.drain_timeout). Then it is killed.
stop_tries=180 # of 0.1 s

usage() {
	cat <<'USAGE'
usage: scripts/cluster.sh COMMAND

  up [N]      build bin/kring, start N nodes (default 3) and the demo origin, wait
              until all are ready; if a cluster is running, say so (exit code 0)
  down        stop everything and remove what up made, except bin/kring
  status      what runs, where, and whether it is ready (exit code 1: nothing)
  kill I      kill -9 node I
  pause I     stop node I with SIGSTOP: its connections stay open
  resume I    let it go on
  restart I   stop node I, whatever its state, start it, wait until it is ready
  add         one more node. Members are a fixed list in this version, so each
              node is restarted in turn with the longer list: each comes back
              empty, and while the lists differ a key may be loaded twice
  logs I      print the log of node I

I is 1…N, or "origin". Node I is kring-I on 127.0.0.1, port 8000+I; the origin
is on port 8100. KRING_BASE_PORT=9001 moves nodes to 9001… and the origin to
9100 (base + 99); clusters on different ports run side by side. Without it,
commands mean the cluster on 8001, or else the only one that runs.
USAGE
}

say() { echo "cluster.sh: $*"; }
fail() {
	echo "cluster.sh: $*" >&2
	exit 1
}
wrong() {
	echo "cluster.sh: $*" >&2
	exit 2
}

# --- where things are -------------------------------------------------------

# use_port PORT: the functions below use the cluster with this base port.
use_port() {
	base=$1
	state=$root/.kring
	if ((base != default_port)); then
		state=$root/.kring/port-$base
	fi
	bin=$state/kring
	conf=$state/kring.yaml
	origin_port=$((base + 99))
}

choose_port() {
	local port=${KRING_BASE_PORT:-} dirs
	if [[ -n $port ]]; then
		if ! [[ $port =~ ^[1-9][0-9]{0,4}$ ]] || ((port < 1024 || port + 99 > 65535)); then
			wrong "KRING_BASE_PORT: \"$port\" is not a port from 1024 to 65436"
		fi
		use_port "$port"
		return
	fi
	use_port "$default_port"
	if [[ $1 != up && ! -e $state/nodes ]]; then
		shopt -s nullglob
		dirs=("$root"/.kring/port-*/nodes)
		shopt -u nullglob
		if ((${#dirs[@]} == 1)); then
			port=${dirs[0]%/nodes}
			use_port "${port##*/port-}"
		fi
	fi
}

node_port() { echo $((base + $1 - 1)); }

# port_of NAME, ready_url NAME: those of a node or the origin.
port_of() {
	if [[ $1 == origin ]]; then echo "$origin_port"; else node_port "${1#kring-}"; fi
}
ready_url() {
	if [[ $1 == origin ]]; then
		echo "http://127.0.0.1:$origin_port/_/stats"
	else
		echo "http://127.0.0.1:$(port_of "$1")/readyz"
	fi
}

# ask URL: a direct request, without the environment's proxy.
ask() { curl --noproxy '*' -sS -m 2 "$@"; }
is_ready() { ask -f -o /dev/null "$(ready_url "$1")" 2>/dev/null; }

# names: the origin and all nodes of the running cluster.
names() {
	local i
	echo origin
	for ((i = 1; i <= $(<"$state/nodes"); i++)); do echo "kring-$i"; done
}

# --- processes --------------------------------------------------------------

# pid_of NAME: prints the pid if the started process is still alive.
pid_of() {
	local pid exe args want
	[[ -r $state/$1.pid ]] && pid=$(<"$state/$1.pid") && [[ $pid =~ ^[0-9]+$ ]] || return 1
	# A zombie has no exe: it is dead, but its parent has not waited for it yet.
	exe=$(readlink "/proc/$pid/exe" 2>/dev/null) || return 1
	[[ ${exe% (deleted)} == "$bin" ]] || return 1
	args=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") || return 1
	want="--node-id $1 "
	if [[ $1 == origin ]]; then want=" origin "; fi
	[[ $args == *"$want"* ]] || return 1
	echo "$pid"
}

# state_of NAME: running, paused or dead.
state_of() {
	local pid stat
	if ! pid=$(pid_of "$1") || ! stat=$(cat "/proc/$pid/stat" 2>/dev/null); then
		echo dead
		return
	fi
	stat=${stat##*) }
	if [[ ${stat%% *} == [Tt] ]]; then echo paused; else echo running; fi
}

# spawn NAME ARG…: runs the binary in the background in its own session. It
# inherits nothing of the caller: no terminal, pipe, directory or lock.
spawn() {
	local name=$1 fd exe
	shift
	(
		for fd in "/proc/$BASHPID/fd/"*; do
			fd=${fd##*/}
			if ((fd > 2 && fd != 255)); then eval "exec $fd>&-"; fi
		done
		cd "$state"
		unset KRING_BASE_PORT KRING_NODE_ID KRING_NODE_LISTEN KRING_NODE_ADVERTISE KRING_CLUSTER_PEERS
		exec setsid "$bin" "$@" </dev/null >>"$state/$name.log" 2>&1
	) &
	local pid=$!
	disown "$pid"
	echo "$pid" >"$state/$name.pid"
	# Until the exec the process is still this script, and pid_of would call it
	# dead.
	while exe=$(readlink "/proc/$pid/exe") && [[ $exe != "$bin" ]]; do sleep 0.01; done
}

start() {
	if [[ $1 == origin ]]; then
		spawn origin origin --listen "127.0.0.1:$origin_port"
	else
		spawn "$1" serve --config "$conf" --node-id "$1" --listen "127.0.0.1:$(port_of "$1")"
	fi
}

# stop NAME…: TERM to all, then KILL to those that do not end in time.
stop() {
	local name pid tries=0 left
	for name in "$@"; do
		if pid=$(pid_of "$name"); then
			kill -TERM "$pid" 2>/dev/null || true
			kill -CONT "$pid" 2>/dev/null || true
		fi
	done
	while :; do
		left=()
		for name in "$@"; do
			if pid=$(pid_of "$name"); then left+=("$pid"); else rm -f "$state/$name.pid"; fi
		done
		((${#left[@]})) || return 0
		if ((++tries > stop_tries)); then kill -KILL "${left[@]}" 2>/dev/null || true; fi
		sleep 0.1
	done
}

# wait_ready NAME…: waits until each one is ready. Otherwise it prints the
# reason and returns 1.
wait_ready() {
	local name waiting=("$@") still tries=0 why
	while ((${#waiting[@]})); do
		still=()
		for name in "${waiting[@]}"; do
			if ! pid_of "$name" >/dev/null; then
				echo "cluster.sh: $name did not start: $(tail -n 1 "$state/$name.log" 2>/dev/null)" >&2
				return 1
			fi
			is_ready "$name" || still+=("$name")
		done
		waiting=("${still[@]}")
		if ((${#waiting[@]} && ++tries > ready_tries)); then
			why=$(ask "$(ready_url "${waiting[0]}")" || echo "no answer")
			echo "cluster.sh: ${waiting[0]} is not ready: $why" >&2
			return 1
		fi
		if ((${#waiting[@]})); then sleep 0.1; fi
	done
}

# --- configuration and clean-up ---------------------------------------------

write_config() {
	local i
	{
		echo "# Written by scripts/cluster.sh; a node's id and address are given as flags."
		echo "cluster:"
		echo "  peers:"
		for ((i = 1; i <= $1; i++)); do echo "    - kring-$i=http://127.0.0.1:$(node_port "$i")"; done
		cat <<CONF
groups:
  - name: docs
    origin: {pool: docs, path: "/docs/{key}"}
  - name: kv
pools:
  - name: docs
    endpoints:
      - {name: a, url: "http://127.0.0.1:$origin_port"}
auth:
  allowed_origin_hosts: [127.0.0.1]   # for endpoints that are added over HTTP
CONF
	} >"$conf"
	echo "$1" >"$state/nodes"
}

# forget: removes the cluster's files except the logs, which may explain a
# failure.
forget() { rm -f "$bin" "$conf" "$state/nodes" "$state"/*.pid; }
forget_all() {
	forget
	rm -f "$state"/*.log
	rmdir "$state" 2>/dev/null || true # the default directory may hold other clusters
	rmdir "$root/.kring" 2>/dev/null || true
}

lock() {
	# The lock is on the script itself, so no lock file is left behind.
	exec 9<"$root/scripts/cluster.sh"
	flock -w 300 9 || fail "another cluster.sh has been at work for 5 minutes; try again"
}

# --- commands ---------------------------------------------------------------

# live: sets `alive` to the processes of the recorded cluster that run, paused
# or not.
live() {
	local name
	alive=()
	[[ -e $state/nodes ]] || return 0
	for name in $(names); do
		if pid_of "$name" >/dev/null; then alive+=("$name"); fi
	done
}

need_cluster() {
	[[ -e $state/nodes ]] || fail "nothing is running (base port $base); start it with: scripts/cluster.sh up"
}

# name_of I: the process named by I.
name_of() {
	local n
	n=$(<"$state/nodes")
	if [[ ${1:-} == origin ]]; then
		echo origin
	elif [[ ${1:-} =~ ^[1-9][0-9]{0,2}$ ]] && (($1 <= n)); then
		echo "kring-$1"
	else
		wrong "\"${1:-}\" is not a node: 1 to $n, or origin"
	fi
}

# abandon: undoes up, except for the logs of the started processes. The reader
# of the output may have gone, so abandon must not wait for it.
abandon() {
	local code=$?
	trap - EXIT
	trap '' HUP INT PIPE TERM
	if [[ -e $state/nodes ]]; then
		# shellcheck disable=SC2046 # names are single words
		stop $(names)
	fi
	forget
	rmdir "$state" 2>/dev/null || true # unless there are logs or other clusters
	rmdir "$root/.kring" 2>/dev/null || true
	exit $((code ? code : 1))
}

up() {
	local n=${1:-3} i name port
	if ! [[ $n =~ ^[1-9][0-9]{0,2}$ ]] || ((n > max_nodes)); then
		wrong "up: \"$n\" is not a number of nodes from 1 to $max_nodes"
	fi
	live
	if ((${#alive[@]})); then
		if [[ -n ${1:-} && $1 != "$(<"$state/nodes")" ]]; then
			fail "already running with $(<"$state/nodes") nodes; first: scripts/cluster.sh down"
		fi
		say "already running"
		status
		return
	fi
	forget_all # leftovers of a reboot or a failed start

	for ((i = 1; i <= n; i++)); do
		port=$(node_port "$i")
		if port_in_use "$port"; then fail "port $port, for kring-$i, is in use; free it or set KRING_BASE_PORT"; fi
	done
	if port_in_use "$origin_port"; then fail "port $origin_port, for the origin, is in use; free it or set KRING_BASE_PORT"; fi

	say "building"
	# An early end, for any reason, also ends the processes.
	trap abandon EXIT
	trap 'exit 130' HUP INT PIPE TERM
	mkdir -p "$state"
	"$root/scripts/build.sh" "$root/bin/kring" </dev/null || fail "the build failed"
	# A cluster keeps its program, whatever is built later.
	cp "$root/bin/kring" "$bin"
	write_config "$n"

	for name in $(names); do start "$name"; done
	# shellcheck disable=SC2046 # names are single words
	if ! wait_ready $(names); then
		echo "cluster.sh: stopped the others; the logs are in $state" >&2
		exit 1 # the trap cleans up
	fi
	trap - EXIT HUP INT PIPE TERM
	if ((n == 1)); then say "1 node and the origin are ready"; else say "$n nodes and the origin are ready"; fi
	status
}

status() {
	local name st ready
	for name in $(names); do
		st=$(state_of "$name")
		ready="not ready"
		if [[ $st == running ]] && is_ready "$name"; then ready=ready; fi
		printf '%-10s http://127.0.0.1:%-6s pid %-8s %s, %s\n' \
			"$name" "$(port_of "$name")" "$(pid_of "$name" || echo -)" "$st" "$ready"
	done
}

down() {
	if [[ ! -e $state/nodes ]]; then
		say "nothing is running"
		if [[ -d $state ]]; then forget_all; fi
		return
	fi
	# shellcheck disable=SC2046 # names are single words
	stop $(names)
	forget_all
	say "stopped"
}

kill_node() {
	local name pid
	name=$(name_of "${1:-}")
	pid=$(pid_of "$name") || fail "$name is not running"
	kill -KILL "$pid"
	while pid_of "$name" >/dev/null; do sleep 0.05; done
	rm -f "$state/$name.pid"
	say "$name is killed"
}

pause_node() {
	local name pid
	name=$(name_of "${1:-}")
	pid=$(pid_of "$name") || fail "$name is not running"
	kill -STOP "$pid"
	while [[ $(state_of "$name") == running ]]; do sleep 0.05; done
	say "$name is paused"
}

resume_node() {
	local name pid
	name=$(name_of "${1:-}")
	pid=$(pid_of "$name") || fail "$name is not running"
	kill -CONT "$pid"
	while [[ $(state_of "$name") == paused ]]; do sleep 0.05; done
	say "$name goes on"
}

restart_node() {
	local name
	name=$(name_of "${1:-}")
	stop "$name"
	start "$name"
	wait_ready "$name" || exit 1
	say "$name is ready"
}

add_node() {
	local name n i
	n=$(<"$state/nodes")
	((n < max_nodes)) || fail "there are $max_nodes nodes already"
	for name in $(names); do
		[[ $(state_of "$name") == running ]] || fail "$name is $(state_of "$name"); first: scripts/cluster.sh restart ${name#kring-}"
	done
	if port_in_use "$(node_port $((n + 1)))"; then fail "port $(node_port $((n + 1))), for kring-$((n + 1)), is in use"; fi
	write_config $((n + 1))
	for ((i = 1; i <= n; i++)); do restart_node "$i"; done
	: >"$state/kring-$((n + 1)).log"
	start "kring-$((n + 1))"
	# shellcheck disable=SC2046 # names are single words
	wait_ready $(names) || exit 1
	say "kring-$((n + 1)) is added; $((n + 1)) nodes are ready"
}

logs() {
	local name
	name=$(name_of "${1:-}")
	cat "$state/$name.log"
}

main() {
	local command=${1:-}
	case $command in
	up | down | status | kill | pause | resume | restart | add | logs) shift ;;
	-h | --help | help)
		usage
		return
		;;
	"")
		usage >&2
		exit 2
		;;
	*) wrong "\"$command\" is not a command: up, down, status, kill, pause, resume, restart, add or logs; scripts/cluster.sh help says more" ;;
	esac
	local most=1
	case $command in down | status | add) most=0 ;; esac
	(($# <= most)) || wrong "$command: too many arguments: $*"

	choose_port "$command"
	case $command in
	status | logs) need curl ;;
	up)
		need go curl flock setsid
		lock
		;;
	*)
		need curl flock setsid
		lock
		;;
	esac
	case $command in up | down) ;; *) need_cluster ;; esac
	case $command in
	up | down | status | logs) "$command" "$@" ;;
	add) add_node ;;
	*) "${command}_node" "$@" ;;
	esac
}

main "$@"
