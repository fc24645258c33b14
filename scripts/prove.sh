# shellcheck shell=bash
# Sourced by scripts that show or test something. Each check prints a line "PASS
# …" or "FAIL …", which scripts/test.sh counts.

failures=0

# prove WHAT (GOT WANT)…: WANT is a pattern of [[ == ]].
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
# yes COMMAND…: prints a command's success as a value for prove.
yes() { if "$@"; then echo yes; else echo no; fi; }

# verdict: ends the script, with exit code 1 if a check has failed.
verdict() {
	if ((failures)); then
		echo "${0##*/}: $failures failed"
		exit 1
	fi
	echo "${0##*/}: all passed"
}

# ask URL…: a direct request with curl, without the environment's proxy.
ask() { curl --noproxy '*' -sS -m 20 "$@"; }

# choose_ports FIRST: exports KRING_BASE_PORT, the first base port with room for
# four nodes and the origin. The search starts at KRING_BASE_PORT, or else at
# FIRST, in steps of 1000.
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
