# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What every tests/bats/*.bats uses: `load ../lib/space`, then
#
#   setup_file()    { space_setup_file; }        # or: space_setup_file debian
#   teardown_file() { space_teardown_file; }
#
# Each file gets a state root of its own, with a guest kernel and the image `box` (busybox, 128 MiB,
# warm) in it; with `debian` the image `debian` too (python3, 256 MiB, warm). The expensive part,
# a store with all that in it, is made once a build and kept in build/cache; a root is a copy of it
# with another file system id, so any number can be mounted at once.
#
# Nothing here sleeps: what has to be waited for is an event, a line of output, or an operation.

bats_require_minimum_version 1.5.0 2>/dev/null || true

SPACE_TOP=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
SPACE_BIN=${SPACE_BIN:-$SPACE_TOP/build/bin}
SPACE_CACHE=${SPACE_CACHE:-$SPACE_TOP/build/cache}
SPACE_TEST_STORE=1536M
export SPACE_TOP SPACE_BIN SPACE_CACHE
case :$PATH: in
*:"$SPACE_BIN":*) ;;
*) export PATH=$SPACE_BIN:$PATH ;;
esac

# --- a state root a file --------------------------------------------------------------------------

# space_setup_file [box|debian|empty]: exports SPACE_ROOT (the folder of everything below),
# SPACE_STATE, SPACE_RUN and SPACE_STORE_SIZE.
space_setup_file() {
	local base=${SPACE_TEST_TMP:-/var/tmp}

	mkdir -p "$base"
	SPACE_ROOT=$(mktemp -d "$base/space-test.XXXXXXXX")
	export SPACE_ROOT
	space_root main "${1:-box}"
}

# space_root NAME [box|debian|empty]: another state root of this file, and the current one from now
# on. What is in it is checked and removed with the file.
space_root() {
	export SPACE_STATE=$SPACE_ROOT/$1/state SPACE_RUN=$SPACE_ROOT/$1/run
	export SPACE_STORE_SIZE=$SPACE_TEST_STORE
	mkdir -p "$SPACE_ROOT/$1"
	mkdir -m 0700 "$SPACE_STATE" "$SPACE_RUN"
	case ${2:-empty} in
	empty) ;;
	*) "$SPACE_TOP/tests/lib/template" "$2" "$SPACE_STATE" 3>&- ;;
	esac
}

# Removes everything with the tools themselves, then looks for what is left.
space_teardown_file() {
	local state bad=0

	[ -n "${SPACE_ROOT:-}" ] || return 0
	for state in "$SPACE_ROOT"/*/state; do
		[ -d "$state" ] || continue
		SPACE_STATE=$state SPACE_RUN=${state%/state}/run space_empty || bad=1
		SPACE_STATE=$state space_unmount || bad=1
	done
	if ! space_is_clean "$SPACE_ROOT"; then
		bad=1
		space_sweep "$SPACE_ROOT"
	fi
	rm -rf --one-file-system "$SPACE_ROOT"
	return $bad
}

# Removes every sandbox, snapshot and image of the current root; says what stays.
space_empty() {
	local what left bad=0

	[ -e "$SPACE_STATE/store" ] || return 0
	space_wait_ops || bad=1
	for what in sandboxes images snapshots; do
		space_rm_all $what || bad=1
	done
	space_wait_ops || bad=1
	left=$(cd "$SPACE_STATE/store" && find sandboxes checkpoints warm queue names -mindepth 1 \
		-maxdepth 2 ! -path 'names/*' -print -o -path 'names/*/*' -print | head -20)
	if [ -n "$left" ]; then
		echo "left in the store of $SPACE_STATE:" "$left" >&2
		bad=1
	fi
	return $bad
}

# space_rm_all sandboxes|snapshots|images: removes all of them.
space_rm_all() {
	local ids

	ids=$(space-ls "$1" | cut -f1)
	[ -z "$ids" ] || space-rm -w --cascade - >/dev/null <<<"$ids"
}

# Waits for every operation that runs.
space_wait_ops() {
	local ops

	ops=$(space-ls ops | awk -F '\t' '/\trunning(\t|$)/ { print $1 }')
	# What they ended with is the business of the test that began them.
	# shellcheck disable=SC2086 # one id a word
	[ -z "$ops" ] || space-opwait --timeout 120s $ops >/dev/null 2>&1 || true
}

# Unmounts the current root's store; its loop device goes with it.
space_unmount() {
	local tries=0 dev

	dev=$(_store_loop "$SPACE_STATE")
	if grep -q " $SPACE_STATE/store " /proc/self/mountinfo; then
		umount "$SPACE_STATE/store" || return 1
	fi
	# A process that was just being confined can hold a copy of the mount for an instant.
	while [ -n "$dev" ] && [ -n "$(_store_loop "$SPACE_STATE")" ]; do
		[ $((tries += 1)) -le 100 ] || return 1
		losetup -d "$dev" 2>/dev/null || true
		read -r -t 0.1 <> <(:) || true
	done
}

_store_loop() {
	{ grep -lsxF "$1/store.img" /sys/block/loop*/loop/backing_file || true; } |
		cut -d/ -f4 | sed 's,^,/dev/,'
}

# --- what is left ---------------------------------------------------------------------------------

# Processes, mounts and loop devices that belong to a folder, one a line.
space_leaks() {
	local pid

	for pid in $(_procs_of "$1"); do
		printf 'process %s\t%s\n' "$pid" "$({ tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null |
			cut -c1-150)"
	done
	awk -v d="$1/" 'index($5, d) == 1 { print "mount\t" $5 }' /proc/1/mountinfo
	{ grep -Hs "^$1/" /sys/block/loop*/loop/backing_file || true; } | sed 's,^,loop\t,'
}

# The pids of our programs, and of machines, that have to do with a folder: by what they have open
# (a machine holds its disk and memory) or by the roots that they were started with.
_procs_of() {
	{
		find /proc/[0-9]*/fd /proc/[0-9]*/cwd /proc/[0-9]*/root -maxdepth 1 -lname "$1/*" || true
		grep -lsE "SPACE_(STATE|RUN)=$1/" /proc/[0-9]*/environ || true
	} 2>/dev/null | cut -d/ -f3 | sort -un | while read -r pid; do
		case $(cat "/proc/$pid/comm" 2>/dev/null) in
		space-*|qemu*|space_*) echo "$pid" ;;
		esac
	done
}

# Waits up to 10 s for processes that are on their way out (by their pidfds), then asserts.
space_is_clean() {
	local pid left

	for pid in $(_procs_of "$1"); do
		timeout 10 tail --pid="$pid" -s 0.1 -f /dev/null || true
	done
	left=$(space_leaks "$1")
	[ -n "$left" ] || return 0
	printf 'left behind:\n%s\n' "$left" >&2
	return 1
}

# The broom for when a test died: ends the processes, also those that they have just started,
# unmounts, detaches.
space_sweep() {
	local pid pids m dev

	for _ in 1 2 3 4 5; do
		pids=$(_procs_of "$1")
		[ -n "$pids" ] || break
		for pid in $pids; do kill -KILL "$pid" 2>/dev/null || true; done
		for pid in $pids; do
			timeout 10 tail --pid="$pid" -s 0.1 -f /dev/null || true
		done
	done
	# shellcheck disable=SC2013 # no blanks in the paths we make
	for m in $(awk -v d="$1/" 'index($5, d) == 1 { print $5 }' /proc/1/mountinfo | sort -r); do
		umount "$m" || umount -l "$m" || true
	done
	# shellcheck disable=SC2013
	for dev in $({ grep -ls "^$1/" /sys/block/loop*/loop/backing_file || true; } |
		cut -d/ -f4); do
		losetup -d "/dev/$dev" 2>/dev/null || true
	done
}

# --- sandboxes ------------------------------------------------------------------------------------

# new_sandbox [OPTION...]: a running sandbox of SPACE_TEST_IMAGE (box); prints its id.
new_sandbox() {
	space-create -w "$@" "${SPACE_TEST_IMAGE:-box}"
}

# Is the image `debian` there? Where the file was not set up with it, it is imported now.
space_debian() {
	if ! space-ls images | cut -f2 | grep -qx debian; then
		space-import --mem 256M debian "$("$SPACE_TOP/tests/lib/debian")" >/dev/null
	fi
}

# The first value of a key in a JSON object on standard input.
json_get() {
	sed -n 's/.*"'"$1"'":\("\([^"]*\)"\|\([^,}]*\)\).*/\2\3/p' | head -n 1
}

# --- assertions -----------------------------------------------------------------------------------

# assert_code N COMMAND...: runs it; $output and $stderr are left for more.
assert_code() {
	local want=$1

	shift
	run "-$want" --separate-stderr "$@" && return 0
	# shellcheck disable=SC2154 # run sets them
	printf -- '-- exit status --\ncommand: %s\nwanted: %s\ngot: %s\nstdout: %s\nstderr: %s\n' \
		"$*" "$want" "$status" "$output" "$stderr" >&2
	return 1
}

# A failure as users must see it: the code, nothing on standard output, one line that holds a text.
assert_fails() {
	local want=$1 text=$2

	shift 2
	assert_code "$want" "$@" || return 1
	if [ -n "$output" ] || [ "$(printf '%s\n' "$stderr" | wc -l)" -ne 1 ] ||
		[[ $stderr != *"$text"* ]]; then
		printf -- '-- not one clear line with "%s" --\ncommand: %s\nstdout: %s\nstderr: %s\n' \
			"$text" "$*" "$output" "$stderr" >&2
		return 1
	fi
}

# assert_same WANT GOT [WHAT]
assert_same() {
	[ "$1" = "$2" ] && return 0
	printf -- '-- differs%s --\nwanted: %s\ngot: %s\n' "${3:+: $3}" "$1" "$2" >&2
	return 1
}

# assert_match REGEX TEXT
assert_match() {
	[[ $2 =~ $1 ]] && return 0
	printf -- '-- does not match --\nregex: %s\ntext: %s\n' "$1" "$2" >&2
	return 1
}

# Tests that need a processor's virtualisation carry the tag kvm and begin with this.
need_kvm() {
	space-doctor --json 2>/dev/null | grep -q '"name":"kvm","ok":true,"level":"ok"' ||
		skip "kvm: this host cannot run a guest with it"
}

# --- waiting --------------------------------------------------------------------------------------

# wait_match SECONDS REGEX COMMAND...: runs the command until a line of its output matches, ends it,
# prints the line.
wait_match() {
	local deadline=$((SECONDS + $1)) re=$2 fd pid line

	shift 2
	exec {fd}< <(exec "$@" 3>&- 2>/dev/null)
	pid=$!
	while [ $SECONDS -lt $deadline ] && read -r -t $((deadline - SECONDS)) -u "$fd" line; do
		if [[ $line =~ $re ]]; then
			kill "$pid" 2>/dev/null || true
			exec {fd}<&-
			printf '%s\n' "$line"
			return 0
		fi
	done
	kill "$pid" 2>/dev/null || true
	exec {fd}<&-
	echo "no line matched '$re' in the output of: $*" >&2
	return 1
}

# The point from which wait_event should look: the last event so far ("" at the beginning).
event_mark() {
	space-events | tail -n 1 | json_get seq
}

# wait_event MARK REGEX [SECONDS]: an event after MARK whose JSON line matches; prints it.
wait_event() {
	wait_match "${3:-60}" "$2" space-events --follow ${1:+--since "$1"}
}

# wait_console SANDBOX REGEX [SECONDS]
wait_console() {
	wait_match "${3:-60}" "$2" space-log -f "$1"
}

# wait_file FILE REGEX [SECONDS]: a line of a file on the host that grows, or is yet to come.
wait_file() {
	wait_match "${3:-60}" "$2" tail -n +1 -F "$1"
}

# wait_pid PID [SECONDS]: until a process that is not ours has ended.
wait_pid() {
	timeout "${2:-60}" tail --pid="$1" -s 0.1 -f /dev/null
}
