# shellcheck shell=bash
# Sourced by the other scripts. need TOOL… returns when every tool is there. It
# installs missing tools with apt-get. If that fails it prints their names in
# one line and exits with code 1.

need() {
	local tool missing=()
	for tool in "$@"; do
		command -v "$tool" >/dev/null 2>&1 || missing+=("$tool")
	done
	((${#missing[@]})) || return 0

	local packages=()
	for tool in "${missing[@]}"; do
		case $tool in
		go)
			echo "${0##*/}: go is not installed; Kring builds with Go 1.26 or newer: https://go.dev/doc/install" >&2
			exit 1
			;;
		# The race detector needs a C compiler and the C library's headers.
		gcc) packages+=(gcc libc6-dev) ;;
		flock | setsid) packages+=(util-linux) ;;
		*) packages+=("$tool") ;;
		esac
	done

	local as_root=()
	if ((EUID != 0)); then
		as_root=(sudo -n)
	fi
	if ! command -v apt-get >/dev/null 2>&1 || { ((EUID != 0)) && ! sudo -n true 2>/dev/null; }; then
		echo "${0##*/}: please install ${missing[*]} (no apt-get, or no right to use it, here)" >&2
		exit 1
	fi
	echo "${0##*/}: installing ${packages[*]}" >&2
	# A mirror may be unreachable for a moment, and another apt-get may hold the
	# lock.
	local out apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300)
	if ! out=$({ "${apt[@]}" update && "${apt[@]}" -y install --no-install-recommends "${packages[@]}"; } 2>&1 </dev/null); then
		tail -n 5 <<<"$out" >&2
		echo "${0##*/}: apt-get could not install ${packages[*]}" >&2
		exit 1
	fi
}

# port_in_use PORT: does a server accept connections on 127.0.0.1:PORT?
port_in_use() {
	(exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}
