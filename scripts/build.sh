#!/usr/bin/env bash
# Builds kring as it is shipped: scripts/build.sh FILE
#
# The flags make the binary smaller. nomsgpack leaves out a codec of gin.
# nethttpomithttp2 leaves out HTTP/2, which Kring does not speak. Functions begin
# at multiples of 16 bytes instead of 32. Leaving out the symbol table saves a
# third; stack traces stay as they are.
set -euo pipefail

if (($# != 1)); then
	echo "usage: scripts/build.sh FILE" >&2
	exit 2
fi
out=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# The binary contains the revision. Where git cannot tell it (an export, another
# user's checkout) the build must not fail.
vcs=false
if git rev-parse HEAD >/dev/null 2>&1; then vcs=auto; fi
exec go build -trimpath -buildvcs="$vcs" -tags nomsgpack,nethttpomithttp2 -ldflags '-s -w -funcalign=16' -o "$out" .
