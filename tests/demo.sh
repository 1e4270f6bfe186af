#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The demonstration behind `make demo`: from a built tree to a Debian that is made from a warm image,
# runs a program, is checkpointed, branched, paused, resumed and removed, each step with its time.
# The kernel and the image stay, in SPACE_STATE (/var/lib/space), so a second run takes seconds.
set -euo pipefail

top=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
bin=${SPACE_BIN:-$top/build/bin}
export PATH=$bin:$PATH
image=debian

if [ "$(id -u)" -ne 0 ]; then
	echo 'demo: needs root: sudo make demo' >&2
	exit 6
fi

if [ -t 1 ]; then
	bold=$'\033[1m' dim=$'\033[2m' off=$'\033[0m'
else
	bold='' dim='' off=''
fi

say() { printf '\n%s%s%s\n' "$bold" "$*" "$off"; }

# Shows a command, runs it in this shell, shows what it took.
try() {
	local begun ms

	printf '  $ %s\n' "$1"
	begun=$(date +%s%N)
	eval "$1" > >(sed 's/^/    /') 2>&1
	ms=$((($(date +%s%N) - begun) / 1000000))
	wait $! 2>/dev/null || true
	printf '    %s%d.%03d s%s\n' "$dim" $((ms / 1000)) $((ms % 1000)) "$off"
}

has() { space-ls "$1" 2>/dev/null | cut -f2 | grep -qx "$2"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

say 'This host'
space-doctor | sed 's/^/    /' || true

if [ -z "$(space-kernel ls 2>/dev/null)" ]; then
	say 'A kernel for the guests: out of its Debian package, into the store'
	try 'space-kernel add'
fi

if ! has images $image; then
	say 'A Debian 12 image: made with mmdebstrap, piped into the importer (about a minute, once)'
	printf '  $ mmdebstrap --include=python3,git,curl,ca-certificates bookworm - | space-import %s -\n' \
		$image
	begun=$(date +%s)
	"$top/tests/lib/debian" -o - python3 git curl ca-certificates | space-import $image - |
		sed 's/^/    /'
	printf '    %s%d s%s\n' "$dim" $(($(date +%s) - begun)) "$off"
	say 'Booted once, and kept warm from then on'
	try "space-create -w --name first $image"
	try 'space-rm -w first'
fi

# What an earlier run left when it was interrupted.
for name in counter way-1 way-2 way-3; do
	if has sandboxes $name; then space-rm -w $name >/dev/null; fi
done
if has snapshots halfway; then space-rm -w --cascade halfway >/dev/null; fi

say 'A sandbox, from the warm image'
try "space-create -w --name counter $image"
try "space-exec counter python3 -c 'print(6*7)'"

say 'A Python program in it that keeps a number in memory, and nowhere else'
cat >counter.py <<'END'
import os, socket
os.mkfifo('/run/ask')
os.mkfifo('/run/answer')
n = 0
while True:
    open('/run/ask').read()
    n += 1
    open('/run/answer', 'w').write(f'{socket.gethostname()} has counted to {n}\n')
END
try 'space-cp counter.py counter:/root/'
try 'space-exec -d counter python3 /root/counter.py'
space-exec counter sh -c 'until [ -p /run/answer ]; do sleep 0.1; done'
ask() { space-exec "$1" sh -c 'echo > /run/ask; cat /run/answer'; }
printf "  $ %s\n" "ask() { space-exec \$1 sh -c 'echo > /run/ask; cat /run/answer'; }"
try 'ask counter'
try 'ask counter'

say 'A snapshot of it while it runs; it goes on'
try 'space-snap -w --name halfway counter'
try 'ask counter'

say 'Three branches of the snapshot: machines of their own, all from the same number'
try 'space-branch -w -n 3 --name way halfway'
# shellcheck disable=SC2016 # for eval
try 'for i in 1 2 3; do ask way-$i; done'

say 'Then each goes its own way'
try 'for i in 1 2 3 4; do ask way-2; done'
try 'ask way-3'

say 'Paused to disk: no memory, no processor; and back'
try 'space-pause -w counter'
try 'space-ls counter'
try 'space-resume -w counter'
try 'ask counter'

say 'What came from what, and what each stores for itself'
try 'space-ls --tree'

say 'Removed'
try 'space-ls sandboxes counter way-1 way-2 way-3 | space-rm -w -'
try 'space-rm -w halfway'

say 'To go on, as root:'
# shellcheck disable=SC2016 # for the reader's shell
printf '    export PATH=%s:$PATH\n' "$bin"
for v in SPACE_STATE SPACE_RUN; do
	if [ -n "${!v:-}" ]; then printf '    export %s=%s\n' $v "${!v}"; fi
done
cat <<END
    id=\$(space-create -w $image)
    space-exec -it \$id bash
    space-rm -w \$id
    man -l $top/man/space.7
END
