#!/usr/bin/env bash
# Types the commands of README.md in order, as a newcomer would: in a copy of
# the checkout without bin/ and without the variables of make. For ```console
# blocks it compares the output; numbers that differ from run to run (lifetimes,
# ages, times, process ids) are compared as N. Each command of a ```sh block
# must end with exit code 0. The cluster runs on other ports.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/need.sh
source "$root/scripts/need.sh"
# shellcheck source=scripts/prove.sh
source "$root/scripts/prove.sh"
need go git curl jq flock setsid

work=$(mktemp -d)
copy="$work/kring"
# shellcheck disable=SC2329 # called by the trap
clean_up() {
	local status=$?
	trap - EXIT INT TERM
	"$copy/scripts/cluster.sh" down >"$work/down" || status=1
	rm -rf "$work"
	exit "$status"
}
mkdir "$copy"
(cd "$root" && git -c safe.directory='*' ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy")
cd "$copy"
choose_ports 28001
base=$KRING_BASE_PORT
trap clean_up EXIT
trap 'exit 130' INT TERM

# there and back translate the README's ports into this cluster's, and back.
there=() back=()
for ((i = 0; i < 9; i++)); do
	there+=(-e "s/:$((8001 + i))\b/:$((base + i))/g")
	back+=(-e "s/:$((base + i))\b/:$((8001 + i))/g")
done
there+=(-e "s/:8100\b/:$((base + 99))/g")
back+=(-e "s/:$((base + 99))\b/:8100/g")
same=(-E -e 's, +, ,g' -e 's/ttl=[0-9]+/ttl=N/g' -e 's/([Aa]ge: |max-age=|pid |time: )[0-9.]+/\1N/g' -e 's/[ \r]+$//'
	-e 's/"(age|ttl|ms|at|version|view_id)":("[^"]*"|[0-9.]+)/"\1":N/g')

# Each command goes into work/I.command. The README's output of a ```console
# command goes into work/I.want; a comment line is neither. A ```sh command ends
# with its last continued line. Two kinds of commands are left out: scripts that
# CI runs by themselves, and commands about /etc/kring, which are below.
awk -v dir="$work" '
	function begin() { n++; file = sprintf("%s/%03d", dir, n) }
	/^```console$/ { inside = "console"; next }
	/^```sh$/      { inside = "sh"; next }
	/^```/         { inside = ""; next }
	inside == ""   { next }
	inside == "console" && /^# / { next }
	inside == "console" && /^\$ / { begin(); print substr($0, 3) > (file ".command"); printf "" > (file ".want"); next }
	inside == "console" { if (n) print > (file ".want"); next }
	!going && /^scripts\/(demo|test)\.sh/ { next }
	!going         { begin() }
	               { print > (file ".command"); going = /\\$/ }' README.md
grep -lE '/etc/kring|app\.both|kring\.yaml|KRING_CLUSTER_SECRET_FILE' "$work"/*.command | xargs rm

shopt -s nullglob
for command in "$work"/*.command; do
	want=${command%.command}.want
	sed "${there[@]}" "$command" >"$work/line"
	code=0
	timeout 300 bash -o pipefail -c "$(<"$work/line")" >"$work/got" 2>&1 || code=$?
	if [[ -e $want ]]; then
		prove "README: $(<"$command")" "$(sed "${back[@]}" "$work/got" | sed "${same[@]}")" "$(sed "${same[@]}" "$want" | sed 's/[][*?\\]/\\&/g')"
	else
		prove "README: $(<"$command")" "$code $( ((code == 0)) || tail -n 5 "$work/got")" "0 "
	fi
done
prove "README: there is something to check" "$(find "$work" -name '*.command' | wc -l)" "1[0-9]"
prove "README: a load and a scenario leave their pages" "$(grep -c '<svg' bin/run.html)" "[1-9]*" "$(grep -c '<svg' bin/stampede.html)" "[1-9]*"

# The sample configuration: its files are made and checked with the lines of the
# README's ```sh blocks about them, with $work in place of /etc/kring.
mkdir "$work/etc"
awk '/^```yaml$/ { inside = 1; next } /^```/ { inside = 0 } inside' README.md | sed "s,/etc/kring/,$work/etc/," >"$work/etc/kring.yaml"
awk '/^```sh$/ { inside = 1; next } /^```/ { inside = 0 }
	inside && /\/etc\/kring|app\.both|kring config check/' README.md | sed "s,/etc/kring/,$work/etc/,g" >"$work/etc/commands"
got=$(cd "$work/etc" && PATH="$copy/bin:$PATH" timeout 60 bash -euo pipefail commands 2>&1) || got="exit code $?: $got"
prove "README: the sample configuration is valid, with the files made as it says" "$got" "kring.yaml: ok"
prove "README: the client's token is the one that the nodes know the hash of" \
	"sha256:$(tr -d '\n' <"$work/etc/app.token" | sha256sum | cut -d ' ' -f 1)" "$(<"$work/etc/app.hash")"

verdict
