# shellcheck shell=bash
# Scripts that show or test something source this file. Each proof prints a line
# "PASS …" or "FAIL …", which scripts/test.sh counts.

failures=0

# prove WHAT (GOT WANT)…: WANT is a pattern, as in [[ == ]].
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
# yes COMMAND…: prints yes if the command succeeds, else no.
yes() { if "$@"; then echo yes; else echo no; fi; }

# verdict ends the script, with exit code 1 if a proof has failed.
verdict() {
	if ((failures)); then
		echo "${0##*/}: $failures failed"
		exit 1
	fi
	echo "${0##*/}: all passed"
}

# ask URL…: curl, straight to this machine, past any proxy of the environment.
ask() { curl --noproxy '*' -sS -m 20 "$@"; }

# choose_ports FIRST: exports KRING_BASE_PORT. It tries the given one (by default
# FIRST) and goes on in steps of 1000, until four nodes and the origin have room.
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
