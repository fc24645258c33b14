# shellcheck shell=bash
# Sourced by the scripts that show or test something: each thing shown is a line
# "PASS …" or "FAIL …", which scripts/test.sh counts.

failures=0

# prove WHAT (GOT WANT)…: WANT is a pattern, as of [[ == ]].
prove() {
	local what=$1 wrong=()
	shift
	while (($#)); do
		# shellcheck disable=SC2053 # a pattern, on purpose
		if [[ $1 != $2 ]]; then wrong+=("     got \"$1\", want \"$2\""); fi
		shift 2
	done
	if ((${#wrong[@]})); then
		failures=$((failures + 1))
		echo "FAIL $what"
		printf '%s\n' "${wrong[@]}"
	else
		echo "PASS $what"
	fi
}
# yes COMMAND…: a command's success as a value to prove.
yes() { if "$@"; then echo yes; else echo no; fi; }

# verdict ends the script: exit code 1 if anything has failed.
verdict() {
	if ((failures)); then
		echo "${0##*/}: $failures failed"
		exit 1
	fi
	echo "${0##*/}: all passed"
}

# ask URL…: curl, straight to this machine whatever proxy the environment names.
ask() { curl --noproxy '*' -sS -m 20 "$@"; }

# choose_ports FIRST: exports KRING_BASE_PORT, the first base port from it (by
# default FIRST) in steps of 1000 with room for four nodes and the origin.
choose_ports() {
	local base port
	for ((base = ${KRING_BASE_PORT:-$1}; base < 60000; base += 1000)); do
		for port in $base $((base + 1)) $((base + 2)) $((base + 3)) $((base + 99)); do
			if port_in_use "$port"; then continue 2; fi
		done
		export KRING_BASE_PORT=$base
		return
	done
	echo "${0##*/}: no free ports" >&2
	exit 1
}
