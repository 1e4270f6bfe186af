#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Bad input: the right code, one clear line, nothing changed.

load ../lib/space

setup_file() {
	space_setup_file
	BOX=$(space-create -w --name box1 box)
	SNAP=$(space-snap -w --name snap1 box1)
	export BOX SNAP
}
teardown_file() { space_teardown_file; }

# What must not change: records, names, operations.
state() {
	(cd "$SPACE_STATE/store" && find sandboxes checkpoints names ops queue warm | sort | md5sum)
}
setup() { BEFORE=$(state); }
teardown() { assert_same "$BEFORE" "$(state)" 'the store'; }

@test "operands that name nothing are code 3 in every tool" {
	for bad in nobody s00000000000000000000 c00000000000000000000 o00000000000000000000 '' . .. / \
		../../etc/passwd box1/../box1 'box1 ' BOX1 "$(printf 'a\nb')" "$(printf '\033[31m')" \
		"$(printf '\377')" "$(head -c 5000 /dev/zero | tr '\0' a)" '*' '%s%n' '-x-'; do
		for tool in 'pause -w' 'resume -w' 'snap -w' 'branch -w' 'rm -w' 'create -w' ls; do
			assert_fails 3 'no such' space-$tool -- "$bad"
		done
	done
}

@test "new names that are none are code 2" {
	for bad in '' Box box_1 -box "$(head -c 64 /dev/zero | tr '\0' a)" ../x a/b 'a b' . s00000000000000000000; do
		assert_fails 2 name space-create -w --name "$bad" box
		assert_fails 2 name space-snap -w --name "$bad" box1
		assert_fails 2 name space-branch -w --name "$bad" box1
		assert_fails 2 name space-import -- "$bad" /usr/share/empty
	done
}

@test "taken names are code 4" {
	for name in box1 snap1 box; do
		assert_fails 4 taken space-create -w --name $name box
		assert_fails 4 taken space-snap -w --name $name box1
		assert_fails 4 taken space-branch -w --name $name box1
	done
	assert_fails 4 taken space-import box1 /usr/share/empty
}

@test "absurd sizes and numbers are code 2" {
	for opt in '--cpus 0' '--cpus -1' '--cpus 33' '--cpus x' '--cpus 99999999999999999999' \
		'--mem 0' '--mem 1' '--mem 63M' '--mem 65M' '--mem 2T' '--mem 99999999999999T' '--mem -5M' \
		'--mem 1.5G' '--disk 1M' '--disk 17T' '--disk 1x' '-n 0' '-n -3' '-n 257' '-n 1e3' \
		'--env novalue' '--env =x' '--env 1A=x' '--meta x' '--require warp' '--no-such' '-Z' \
		'--wait=1' '--request-id='; do
		# shellcheck disable=SC2086 # an option and its value
		assert_fails 2 '' space-create -w $opt box
	done
	assert_fails 2 '' space-branch -w -n 0 box1
	assert_fails 2 '' space-branch -w -n 300 box1
	assert_fails 2 '' space-opwait --timeout soon
	assert_fails 2 '' space-opwait --timeout
}

@test "more memory than the host has is code 7" {
	kb=$(awk '/MemTotal/ { print $2 }' /proc/meminfo)
	assert_fails 7 'the host has' space-create -w --mem $((kb / 512 / 2 * 2))M box
}

@test "environments and notes that are too large are code 2" {
	big=$(head -c 7000 /dev/zero | tr '\0' x)
	assert_fails 2 env space-create -w --env "A=$big" box
	big=$(head -c 17000 /dev/zero | tr '\0' x)
	assert_fails 2 meta space-create -w --meta "a=$big" box
}

@test "wrong kinds and states are code 4 or 3" {
	assert_fails 4 'not an image' space-create -w box1
	assert_fails 4 'not an image' space-create -w snap1
	for tool in pause resume snap; do
		assert_fails 3 'no such sandbox' space-$tool -w snap1
		assert_fails 3 'no such sandbox' space-$tool -w box
	done
	assert_fails 3 'no such operation' space-opwait box1
}

@test "no operands is code 2; help and version need no state" {
	for tool in create pause resume snap branch rm; do
		assert_fails 2 'too few operands' space-$tool
		assert_fails 2 'too few operands' space-$tool -w
		SPACE_STATE=/nonexistent/x assert_code 0 space-$tool --help
		SPACE_STATE=/nonexistent/x assert_code 0 space-$tool --version
	done
	assert_fails 2 operands space-events x
	assert_fails 2 verb space
	assert_fails 3 verb space no-such-verb
	assert_fails 3 verb space ../bin/sh
	assert_fails 3 verb space help ../x
}

@test "standard input with junk in it: every line is told, none is acted on" {
	printf 'nobody\n\n\t\n../x\n' >"$BATS_TEST_TMPDIR/in"
	run --separate-stderr space-rm -w - <"$BATS_TEST_TMPDIR/in"
	assert_same 3 "$status"
	assert_same '' "$output"
	assert_same 2 "$(printf '%s\n' "$stderr" | wc -l)"
}

@test "a store that others can write is refused" {
	mkdir -m 0777 "$BATS_TEST_TMPDIR/open"
	mkdir -m 0700 "$BATS_TEST_TMPDIR/run"
	SPACE_STATE=$BATS_TEST_TMPDIR/open SPACE_RUN=$BATS_TEST_TMPDIR/run assert_fails 6 '' space-create box
}

@test "closed or full standard output is a failure" {
	assert_code 1 sh -c 'space-ls >/dev/full'
}
