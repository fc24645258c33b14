#!/usr/bin/env bash
# Runs what README.md shows: every command of its ```console blocks, in order,
# with a cluster on other ports, and compares the outputs. Numbers that differ
# from run to run (lifetimes, ages, times, process ids) are compared as N.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/need.sh
source "$root/scripts/need.sh"
# shellcheck source=scripts/prove.sh
source "$root/scripts/prove.sh"
need go git curl flock setsid
cd "$root"

work=$(mktemp -d)
# shellcheck disable=SC2329 # called by the trap
clean_up() {
	local status=$?
	trap - EXIT INT TERM
	scripts/cluster.sh down >/dev/null || status=1
	rm -rf "$work"
	exit "$status"
}
choose_ports 28001
base=$KRING_BASE_PORT
trap clean_up EXIT
trap 'exit 130' INT TERM

# there and back turn the README's ports into this cluster's and back again.
there=() back=()
for ((i = 0; i < 9; i++)); do
	there+=(-e "s/:$((8001 + i))\b/:$((base + i))/g")
	back+=(-e "s/:$((base + i))\b/:$((8001 + i))/g")
done
there+=(-e "s/:8100\b/:$((base + 99))/g")
back+=(-e "s/:$((base + 99))\b/:8100/g")
same=(-E -e 's, +, ,g' -e 's/ttl=[0-9]+/ttl=N/g' -e 's/([Aa]ge: |max-age=|pid )[0-9]+/\1N/g' -e 's/[ \r]+$//'
	-e 's/"(age|ttl|ms|at|version|view_id)":("[^"]*"|[0-9.]+)/"\1":N/g')

# Each command into work/I.command, what the README says it prints into
# work/I.want. A comment line is neither.
awk -v dir="$work" '
	/^```console$/ { inside = 1; next }
	/^```/         { inside = 0; next }
	!inside || /^# / { next }
	/^\$ /         { n++; file = sprintf("%s/%03d", dir, n); print substr($0, 3) > (file ".command"); printf "" > (file ".want"); next }
	n              { print > (file ".want") }' README.md

shopt -s nullglob
for command in "$work"/*.command; do
	want=${command%.command}.want
	sed "${there[@]}" "$command" >"$work/line"
	timeout 300 bash -o pipefail -c "$(<"$work/line")" >"$work/got" 2>&1 || true
	prove "README: $(<"$command")" "$(sed "${back[@]}" "$work/got" | sed "${same[@]}")" "$(sed "${same[@]}" "$want" | sed 's/[][*?\\]/\\&/g')"
done
# The sample configuration, its files made and checked as README.md says: the
# lines of its ```sh blocks about them, with $work in the place of /etc/kring.
mkdir "$work/bin" "$work/etc"
scripts/build.sh "$work/bin/kring"
awk '/^```yaml$/ { inside = 1; next } /^```/ { inside = 0 } inside' README.md | sed "s,/etc/kring/,$work/etc/," >"$work/etc/kring.yaml"
awk '/^```sh$/ { inside = 1; next } /^```/ { inside = 0 }
	inside && /\/etc\/kring|app\.both|kring config check/' README.md | sed "s,/etc/kring/,$work/etc/,g" >"$work/etc/commands"
got=$(cd "$work/etc" && PATH="$work/bin:$PATH" timeout 60 bash -euo pipefail commands 2>&1) || got="exit code $?: $got"
prove "README: the sample configuration is valid, with the files made as it says" "$got" "kring.yaml: ok"
prove "README: the client's token is the one that the nodes know the hash of" \
	"sha256:$(tr -d '\n' <"$work/etc/app.token" | sha256sum | cut -d ' ' -f 1)" "$(<"$work/etc/app.hash")"
prove "README: there is something to check" "$(find "$work" -name '*.command' | wc -l)" "[1-9]*"

verdict
