#!/usr/bin/env bash
# Starts three nodes and a slow origin, shows with curl what the cache does,
# kills a node and goes on, and cleans up. It checks everything that it shows: a
# line "PASS …" with figures, or "FAIL …" and exit code 1 at the end.
#
# It uses the ports of scripts/cluster.sh (8001…, 8100), or the next free
# thousand if they are in use.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source=scripts/need.sh
source "$root/scripts/need.sh"
# shellcheck source=scripts/prove.sh
source "$root/scripts/prove.sh"

case ${1:-} in
"") ;;
-h | --help)
	cat <<'USAGE'
usage: scripts/demo.sh

Builds Kring, starts three nodes and a slow origin, shows with curl what the
cache does and checks each thing shown (PASS or FAIL), kills a node and goes on,
and cleans up. Takes about half a minute, and the ports of scripts/cluster.sh
(8001…, 8100; KRING_BASE_PORT=9001: 9001…, 9100) or the next free ones.
USAGE
	exit
	;;
*)
	echo "demo.sh: \"$1\" is not an argument; there is only --help" >&2
	exit 2
	;;
esac
need go git curl jq flock setsid

nodes=(1 2 3)
work=$(mktemp -d)
started=

# shellcheck disable=SC2329 # called by the trap
clean_up() {
	local status=$?
	trap - EXIT
	# The reader may have gone (demo.sh | head). A failed write must not end the
	# clean-up.
	trap '' HUP INT PIPE TERM
	if [[ $started ]]; then
		if ((status || failures)); then tail -n 5 "$state"/*.log 2>/dev/null || true; fi
		cluster down >"$work/down" 2>&1 || status=1
		cat "$work/down" 2>/dev/null || true
	fi
	rm -rf "$work"
	exit "$status"
}
trap clean_up EXIT
trap 'exit 130' HUP INT PIPE TERM

cluster() { "$root/scripts/cluster.sh" "$@"; }

node_url() { echo "http://127.0.0.1:$((KRING_BASE_PORT + $1 - 1))"; }

# show URL ARG…: prints the request as a user would type it, and of the answer
# the status, the named headers, the start of the body and the time. Afterwards
# $work/headers has all headers, and $work/body the body.
show() {
	local url=$1 arg line="  \$ curl -i"
	shift
	for arg in "$@"; do
		case $arg in *[\ \"]*) line+=" '$arg'" ;; *) line+=" $arg" ;; esac
	done
	echo "$line $url"
	: >"$work/body" # curl does not write the file if there is no body
	ask -D "$work/headers" -o "$work/body" -w '%{time_total}' "$@" "$url" >"$work/time"
	tr -d '\r' <"$work/headers" | grep -iE '^(http/[0-9.]+|cache-status:|etag:|age:) ' | sed 's/^/    /'
	if [[ -s $work/body ]]; then
		echo "    $(head -c 76 "$work/body")"
	fi
	echo "    took $(<"$work/time") s"
}

status() { head -n 1 "$work/headers" | cut -d ' ' -f 2; }
cache_status() { tr -d '\r' <"$work/headers" | sed -n 's/^[Cc]ache-[Ss]tatus: //p'; }

# answers CODE: prints how many lines of $work/codes are this status.
answers() { grep -c "^$1\$" "$work/codes" || true; }

origin_loads() { ask "$origin/_/stats" | jq .loads; }
loads_of() { ask "$origin/_/stats/$1" | jq .loads; }
owner_of() { ask "$(node_url 1)/v1/explain/docs/$1" | jq -r .owner; }

# key_of NODE NAME: prints the first of NAME-1, NAME-2, … that NODE owns.
key_of() {
	local i
	for ((i = 1; ; i++)); do
		if [[ $(owner_of "$2-$i") == "$1" ]]; then
			echo "$2-$i"
			return
		fi
	done
}

# whole_document FILE KEY: FILE is the origin's whole document of that key.
# shellcheck disable=SC2329 # called by prove
whole_document() {
	[[ $(jq -r .key "$1") == "$2" ]] &&
		[[ $(jq -j '.key + "\n" + .version + "\n" + .pad' "$1" | sha256sum | cut -d ' ' -f 1) == "$(jq -r .sha256 "$1")" ]]
}

# books NODE…: checks the documented identities of /v1/stats at each node.
books() {
	local i
	for i in "$@"; do
		ask "$(node_url "$i")/v1/stats" | jq -e '
			.gets == .hits + .hot_hits + .stale + .joined + .peer + .loads + .refused and
			.served == .served_hits + .served_stale + .served_joined + .served_loads + .served_refused' >/dev/null || return 1
	done
}

# cluster_books: checks them over all nodes, and against the origin's own
# counts.
cluster_books() {
	local i tries
	for ((tries = 0; tries < 50; tries++)); do # an answer is counted just after it is written
		for i in "${nodes[@]}"; do ask "$(node_url "$i")/v1/stats"; done | jq -s '{
			gets: map(.gets) | add, peer: map(.peer) | add, served: map(.served) | add,
			abandoned: map(.abandoned) | add, loads: map(.loads + .served_loads + .refreshes) | add}' >"$work/books"
		if jq -e --argjson origin "$(origin_loads)" \
			'.peer == .served + .abandoned and .loads == $origin' "$work/books" >/dev/null; then
			return
		fi
		sleep 0.1
	done
	return 1
}

# show_when_back NODE URL: the other nodes find a returned node by their own
# probes.
show_when_back() {
	local tries
	for ((tries = 0; tries < 200; tries++)); do
		show "$2" >"$work/shown"
		if [[ $(cache_status) == "$1; "* ]]; then break; fi
		sleep 0.1
	done
	cat "$work/shown"
}

# --- the cluster --------------------------------------------------------------

choose_ports 8001
state=$root/.kring
if ((KRING_BASE_PORT != 8001)); then state=$root/.kring/port-$KRING_BASE_PORT; fi
origin=http://127.0.0.1:$((KRING_BASE_PORT + 99))
started=yes # before up: an interrupted up may have started processes
cluster up 3

echo
echo "One cluster: every node sees the same members"
for i in "${nodes[@]}"; do ask "$(node_url "$i")/v1/cluster" | jq -c '[.epoch, .fingerprint, [.members[].id]]'; done >"$work/views"
jq -c '"  epoch \(.[0]), fingerprint \(.[1]), members \(.[2] | join(" "))"' -r "$work/views" | sort -u
prove "three nodes, one view" "$(sort -u "$work/views" | wc -l)" 1 "$(jq -s '.[0][2] | length' "$work/views")" 3

echo
echo "A miss: asked at kring-1, loaded by the key's owner from an origin that takes 100 ms"
key=$(key_of kring-2 page)
show "$(node_url 1)/v1/cache/docs/$key"
cp "$work/body" "$work/first"
prove "a miss goes to the owner kring-2, which loads it: $(loads_of "$key") load" \
	"$(status)" 200 "$(loads_of "$key")" 1 \
	"$(cache_status)" "kring-2; fwd=miss; fwd-status=200; stored*, kring-1; fwd=miss; detail=peer:kring-2"
prove "the value is the origin's, byte for byte" "$(yes whole_document "$work/first" "$key")" yes

echo
echo "A hit, at the owner and through the third node"
show "$(node_url 2)/v1/cache/docs/$key"
prove "the owner answers from memory" \
	"$(cache_status)" "kring-2; hit; ttl=*" "$(yes cmp -s "$work/body" "$work/first")" yes
show "$(node_url 3)/v1/cache/docs/$key"
prove "kring-3 answers with its peer kring-2's copy, still $(loads_of "$key") load" \
	"$(cache_status)" "kring-2; hit; ttl=*, kring-3; fwd=miss; detail=peer:kring-2" \
	"$(loads_of "$key")" 1 "$(yes cmp -s "$work/body" "$work/first")" yes
etag=$(tr -d '\r' <"$work/headers" | sed -n 's/^[Ee][Tt]ag: //p')
show "$(node_url 3)/v1/cache/docs/$key" -H "If-None-Match: $etag"
prove "a client that has it already is told so: 304, no body" "$(status)" 304 "$(yes test -s "$work/body")" no

echo
echo "A stampede: 50 clients at once, through all nodes, ask for one cold key of an origin that takes a second"
ask -o "$work/out" -X PUT -d '{"latency":"1s"}' "$origin/_/control"
key=$(key_of kring-3 rush)
for ((i = 0; i < 50; i++)); do
	ask -o "$work/rush.$i" -w '%{http_code}\n' "$(node_url $((i % 3 + 1)))/v1/cache/docs/$key" &
done >"$work/codes"
wait
ask -o "$work/out" -X PUT -d '{"latency":"20ms"}' "$origin/_/control"
values=$(sha256sum "$work"/rush.* | cut -d ' ' -f 1 | sort -u | wc -l)
prove "50 clients: $(answers 200) answers, $values value, $(loads_of "$key") load" \
	"$(answers 200)" 50 "$values" 1 "$(loads_of "$key")" 1

echo
echo "A group without an origin: PUT, GET and DELETE through any node"
show "$(node_url 1)/v1/cache/kv/greeting" -X PUT -H "Content-Type: text/plain" --data-binary "hello, ring"
prove "PUT is answered with 201" "$(status)" 201
show "$(node_url 3)/v1/cache/kv/greeting"
prove "another node has it" "$(status)" 200 "$(<"$work/body")" "hello, ring"
show "$(node_url 2)/v1/cache/kv/greeting" -X PUT --data-binary "goodbye"
prove "replaced through a third: 204" "$(status)" 204
for i in "${nodes[@]}"; do ask "$(node_url "$i")/v1/cache/kv/greeting" && echo; done >"$work/values"
prove "all three nodes answer the new value" "$(tr "\n" " " <"$work/values")" "goodbye goodbye goodbye "
show "$(node_url 3)/v1/cache/kv/greeting" -X DELETE
prove "DELETE is answered with 204" "$(status)" 204
for i in "${nodes[@]}"; do ask -o "$work/out" -w '%{http_code}\n' "$(node_url "$i")/v1/cache/kv/greeting"; done >"$work/codes"
prove "then no node has it: 404" "$(answers 404)" 3

echo
echo "The books: what the nodes counted, and what the origin did"
prove "each node: gets = hits + hot + stale + joined + peer + loads + refused; served likewise" "$(yes books 1 2 3)" yes
prove "the cluster: asked of peers = served to peers; loads counted = loads the origin saw" "$(yes cluster_books)" yes
jq -r --arg origin "$(origin_loads)" \
	'"  gets \(.gets), asked of peers \(.peer) = served \(.served) + abandoned \(.abandoned), loads \(.loads) = \($origin) at the origin"' "$work/books"

echo
echo "Kill the owner of some of 60 keys, and go on through the others"
urls() {
	local i k
	for i in "$@"; do for ((k = 1; k <= 60; k++)); do printf 'url = "%s/v1/cache/docs/doc-%d"\noutput = "%s"\n' "$(node_url "$i")" "$k" "$work/out"; done; done
}
urls 1 2 3 | ask -K - -w '%{http_code}\n' >"$work/codes"
lost=()
kept=()
for ((k = 1; k <= 60; k++)); do
	if [[ $(owner_of "doc-$k") == kring-2 ]]; then lost+=("doc-$k"); else kept+=("doc-$k"); fi
done
before=$(origin_loads)
prove "60 keys through three nodes: $(answers 200) of 180 answers" "$(answers 200)" 180

cluster kill 2
urls 1 3 1 | ask -K - -w '%{http_code}\n' >"$work/codes"
after=$(origin_loads)
most_lost=$(for k in "${lost[@]}"; do loads_of "$k"; done | sort -n | tail -n 1)
most_kept=$(for k in "${kept[@]}"; do loads_of "$k"; done | sort -n | tail -n 1)
prove "kring-2 is dead, its ${#lost[@]} keys are not: $(answers 200) of 180 answers" "$(answers 200)" 180
prove "each lost key was loaded once more ($((after - before)) loads for ${#lost[@]} keys), the other ${#kept[@]} not at all" \
	$((after - before)) "${#lost[@]}" "$most_lost" 2 "$most_kept" 1
prove "the books of the living still balance" "$(yes books 1 3)" yes

echo
echo "And back again"
cluster restart 2
key=$(key_of kring-2 back)
show_when_back kring-2 "$(node_url 1)/v1/cache/docs/$key"
prove "kring-2 answers for its keys again" "$(status)" 200 "$(cache_status)" "kring-2; *detail=peer:kring-2"

echo
echo "A node that hangs: its connections stay open, and nothing answers"
key=$(key_of kring-3 hang)
cluster pause 3
urls 1 2 | ask -K - -w '%{http_code}\n' >"$work/codes"
prove "60 keys through the other two: $(answers 200) of 120 answers" "$(answers 200)" 120
show "$(node_url 1)/v1/cache/docs/$key"
prove "the next owner stands in for kring-3" "$(status)" 200 "$(cache_status)" "kring-[12]; *"
cluster resume 3
show_when_back kring-3 "$(node_url 1)/v1/cache/docs/$key"
prove "it wakes, and answers for its keys again" "$(status)" 200 "$(cache_status)" "kring-3; *detail=peer:kring-3"
prove "the books balance on every node" "$(yes books 1 2 3)" yes

echo
cluster down
started=
left=
for port in $KRING_BASE_PORT $((KRING_BASE_PORT + 1)) $((KRING_BASE_PORT + 2)) $((KRING_BASE_PORT + 99)); do
	if port_in_use "$port"; then left+="port $port "; fi
done
if [[ -e $state/nodes ]]; then left+=$state; fi
prove "nothing is left behind" "$left" ""

verdict
