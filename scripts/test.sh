#!/usr/bin/env bash
# All checks of CI. Installs missing tools; needs Go and git.
#
#  scripts/test.sh           all checks
#   scripts/test.sh --quick   without the race detector, the scripts' own tests
#                             and the vulnerability check
#
# The last line is "N passed, N failed", after the names of checks that were not
# run. The exit code is 0 only if nothing failed. A check counts as one, and so
# does each Go test, subtest, and scenario of a script's test. With CI=true a
# check that cannot run has failed.
set -euo pipefail
exec </dev/null

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
# shellcheck source=scripts/need.sh
source scripts/need.sh

# The project's own limit is 25 MB for the default build.
max_binary_bytes=25000000
tags=(-tags "nomsgpack,nethttpomithttp2")
# The flags of scripts/build.sh, so that both share the compiled packages.
tool=(env GOFLAGS=-trimpath go tool -modfile=tools/go.mod)

quick=
how=(-race) # vet and the tests share packages compiled with these flags
for arg in "$@"; do
	case $arg in
	--quick)
		quick=yes
		how=(-trimpath)
		;;
	-h | --help)
		sed -n '2,/^set /s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
		exit
		;;
	*)
		echo "usage: scripts/test.sh [--quick]" >&2
		exit 2
		;;
	esac
done

need go git gcc curl jq shellcheck flock setsid redis-server
export CGO_ENABLED=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0
not_run=()

# check NAME COMMAND…: runs one check, and shows its output if it fails.
check() {
	local name=$1 begun=$SECONDS
	shift
	if "$@" >"$work/out" 2>&1; then
		passed=$((passed + 1))
		echo "ok    $name  $((SECONDS - begun))s"
	else
		failed=$((failed + 1))
		cat "$work/out"
		echo "FAIL  $name"
	fi
}

# go_tests DIR FLAG…: runs go test in a module; gotestsum counts each test.
go_tests() {
	local dir=$1 p f s status=0
	shift
	# First everything is built on all cores. Then the tests run one package at
	# a time, because tests of whole clusters tell silence from slowness by the
	# clock.
	go -C "$dir" test -run '^$' "$@" ./... >/dev/null 2>&1 || true # the tests below report a failed build
	one_run "$dir" "$@" || status=1
	# The race detector's own runtime crashes now and then. That says nothing of the
	# tests. The packages that have passed are cached.
	if ((status)) && grep -q 'ThreadSanitizer: CHECK failed' "$work/tests"; then
		echo "the race detector itself has crashed: the packages that it has ended run again, once"
		status=0
		one_run "$dir" "$@" || status=1
	fi
	read -r f <"$work/failed" || f=0
	p=$(jq -s 'map(select(.Test and .Action == "pass")) | length' "$work/ended") || p=0
	s=$(jq -s 'map(select(.Test and .Action == "skip")) | length' "$work/ended") || s=0
	if ((f == 0 && (status || p == 0))); then f=1; fi # no test ran, or go test itself failed
	passed=$((passed + p))
	failed=$((failed + f))
	if ((s)); then skipped "$s skipped Go tests in $dir"; fi
}

# one_run DIR FLAG…: runs the tests of a module, and leaves their output and counts in
# $work.
one_run() {
	local dir=$1
	shift
	rm -f "$work/failed" "$work/ended"
	# TESTS_FAILED also counts packages that fail without a failing test, and
	# tests that never ended. The events of ended tests say which passed.
	# shellcheck disable=SC2016 # sh expands it, after the tests
	(cd "$dir" && WORK=$work "$work/gotestsum" --format pkgname --format-icons text --format-hide-empty-pkg --no-color \
		--jsonfile-timing-events "$work/ended" --post-run-command 'sh -c "echo $TESTS_FAILED >$WORK/failed"' \
		-- -p 1 "$@" ./...) 2>&1 | tee "$work/tests"
}

# scenarios SCRIPT…: runs a script that prints "PASS …" or "FAIL …" for each
# scenario.
scenarios() {
	local status=0 p f
	"$@" 2>&1 | tee "$work/out" || status=1
	p=$(grep -c '^PASS ' "$work/out" || true)
	f=$(grep -c '^FAIL ' "$work/out" || true)
	if ((status && f == 0)) || ((p + f == 0)); then
		f=$((f + 1))
		echo "FAIL  $1 ended early"
	fi
	passed=$((passed + p))
	failed=$((failed + f))
}

# skipped WHAT: allowed on a developer's machine; a failure in CI.
skipped() {
	not_run+=("$1")
	if [[ ${CI:-} == true ]]; then
		failed=$((failed + 1))
		echo "FAIL  not run: $1"
	fi
}

formatted() {
	local out
	out=$("${tool[@]}" gofumpt -l .) || return 1
	if [[ -n $out ]]; then
		echo "not formatted (make format): $out"
		return 1
	fi
}

vet() { go vet "${how[@]}" "${tags[@]}" ./...; }

small_enough() {
	local size
	scripts/build.sh "$work/kring" || return 1
	size=$(stat -c %s "$work/kring")
	echo "the binary has $size bytes, the limit is $max_binary_bytes"
	((size <= max_binary_bytes))
}

# online COMMAND…: runs a command that may need the module proxy. While the
# network is the cause of its failure, it tries twice more.
online() {
	local pause
	for pause in 5 20 0; do
		if "$@" >"$work/online" 2>"$work/online.err"; then
			cat "$work/online"
			return
		fi
		grep -qE 'dial tcp|lookup |i/o timeout|TLS handshake|connection re(set|fused)|unexpected EOF|: (408|429|5[0-9][0-9]) ' "$work/online" "$work/online.err" || break
		sleep "$pause"
	done
	cat "$work/online" "$work/online.err" >&2
	return 1
}

# modules: downloads everything that the checks below need from the module
# proxy. So a failing network is one failure that says so.
modules() { online go mod download && online go -C tools mod download; }

tidy() { online go mod tidy -diff; }

# The database of known vulnerabilities comes from the module proxy, so the
# machine needs no other server.
vulnerability_database() {
	local dir
	dir=$(online go mod download -json golang.org/x/vulndb@latest | jq -er .Dir) &&
		online go run golang.org/x/vulndb/cmd/indexdb@latest -vulns "$dir/data/osv" -out "$work/vulndb"
}

# Calls of vulnerable functions in modules fail the check if the advisory is two
# weeks old and names a version without them. Younger advisories are only
# printed, so that no commit turns red because of a new advisory. Those in the
# standard library are only printed, too: the user who installs Go must update
# it.
no_vulnerable_calls() {
	"${tool[@]}" govulncheck -format json -db "file://$work/vulndb" "${tags[@]}" ./... >"$work/vulns" || return 1
	jq -rs -f scripts/vulnerable_calls.jq "$work/vulns" >"$work/calls" || return 1
	! grep '^overdue: ' "$work/calls"
}

vulnerabilities() {
	if ! vulnerability_database >"$work/out" 2>&1; then
		tail -n 2 "$work/out"
		skipped "govulncheck: its database could not be had from the module proxy"
		return
	fi
	: >"$work/calls"
	check "govulncheck" no_vulnerable_calls
	grep '^warning: ' "$work/calls" || true
}

check "modules" modules
check "gofumpt" formatted
check "go vet" vet
check "go.mod and go.sum are tidy" tidy
check "shellcheck" shellcheck -x scripts/*.sh .ci/run
check "go build, at most $max_binary_bytes bytes" small_enough
check "staticcheck" "${tool[@]}" staticcheck "${tags[@]}" ./...

go -C tools build -trimpath -o "$work/gotestsum" gotest.tools/gotestsum
go_tests . "${how[@]}" "${tags[@]}"
if [[ $quick ]]; then
	not_run+=("race detector" "scripts/cluster_test.sh" "scripts/demo.sh" "scripts/readme_test.sh" "govulncheck")
else
	scenarios scripts/cluster_test.sh
	scenarios scripts/demo.sh
	scenarios scripts/readme_test.sh
	vulnerabilities
fi

echo
for what in "${not_run[@]}"; do echo "not run: $what"; done
echo "$passed passed, $failed failed"
((failed == 0))
