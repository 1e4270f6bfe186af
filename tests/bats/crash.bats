#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A worker killed at each phase of each operation (sandbox/phases.def): it has succeeded, failed with
# everything as before, or is finished by the next writer; and nothing is left over.

load ../lib/space

setup_file() { space_setup_file; }
teardown_file() { space_teardown_file; }

phases() { # KIND: lines "phase outcome"
	sed -n "s/^SP_PHASE($1, *\([a-z]*\), *\([A-Z]*\),.*/\1 \2/p" \
		"$SPACE_TOP/libcommon/sandbox/phases.def"
}

# Nothing half made, nothing queued, no machine without a record.
is_whole() {
	local left

	left=$(cd "$SPACE_STATE/store" && find sandboxes checkpoints names warm ops queue -maxdepth 2 \
		\( -name '.new-*' -o -name '.trash-*' -o -name '.tmp-*' \) ; ls -A "$SPACE_STATE/store/queue")
	assert_same '' "$left" 'left over' || return 1
	left=$(cd "$SPACE_RUN" && find . -maxdepth 1 -name 's*' -printf '%f\n')
	assert_same "$(space-ls | awk -F '\t' '$3 == "running" { print $1 }' | sort)" \
		"$(echo "$left" | sort)" 'folders of running machines'
}

# crash KIND.PHASE COMMAND...: the tool waits, finds the worker dead and repairs; its code is 0 or 5.
crash() {
	local at=$1

	shift
	SPACE_CRASH_AT=$at run --separate-stderr "$@"
	[ "$status" -eq 0 ] || [ "$status" -eq 5 ] || {
		echo "$at: $status: $output $stderr"
		return 1
	}
	is_whole || { echo "after $at"; return 1; }
}

expect() { # OUTCOME: against $status
	case $1 in
	UNDONE) assert_same 5 "$status" ;;
	FINISHED) assert_same 0 "$status" ;;
	EITHER) ;;
	*) false ;;
	esac
}

@test "create" {
	while read -r phase outcome; do
		crash "create.$phase" space-create -w -n 2 --name crash box
		expect "$outcome"
		assert_same '' "$(space-ls)"
	done < <(phases create)
	new_sandbox -n 2 --name crash | space-rm -w - >/dev/null
}

@test "create, with nobody waiting: the next tool that writes repairs" {
	while read -r phase _; do
		op=$(SPACE_CRASH_AT=create.$phase space-create box)
		other=$(new_sandbox)
		space-rm -w "$other"
		assert_code 5 space-opwait "$op"
		assert_same '' "$(space-ls)"
		is_whole
	done < <(phases create)
}

@test "pause" {
	while read -r phase outcome; do
		id=$(new_sandbox)
		space-exec "$id" sh -c "echo $phase >/run/mark"
		crash "pause.$phase" space-pause -w "$id"
		expect "$outcome"
		state=$(space-ls "$id" | cut -f3)
		[ "$status" -eq 0 ] && want=paused || want=running
		assert_same "$want" "$state" "after $phase"
		space-resume -w "$id"
		assert_same "$phase" "$(space-exec "$id" cat /run/mark)"
		space-rm -w "$id"
		is_whole
	done < <(phases pause)
}

@test "resume" {
	while read -r phase outcome; do
		id=$(new_sandbox)
		space-exec "$id" sh -c "echo $phase >/run/mark"
		space-pause -w "$id"
		crash "resume.$phase" space-resume -w "$id"
		expect "$outcome"
		[ "$status" -eq 0 ] && want=running || want=paused
		assert_same "$want" "$(space-ls "$id" | cut -f3)" "after $phase"
		space-resume -w "$id"
		assert_same "$phase" "$(space-exec "$id" cat /run/mark)"
		space-rm -w "$id"
		is_whole
	done < <(phases resume)
}

@test "snap" {
	id=$(new_sandbox)
	while read -r phase outcome; do
		crash "snap.$phase" space-snap -w --name crash "$id"
		expect "$outcome"
		assert_same running "$(space-ls "$id" | cut -f3)"
		if [ "$status" -eq 0 ]; then
			kid=$(space-branch -w crash)
			space-exec "$kid" true
			space-rm -w "$kid" crash >/dev/null
		fi
		assert_fails 3 'no such' space-ls crash
	done < <(phases snap)
	space-rm -w "$id"
	assert_same '' "$(space-ls snapshots | grep -vP '\twarm\t')"
}

@test "branch" {
	id=$(new_sandbox)
	while read -r phase outcome; do
		crash "branch.$phase" space-branch -w -n 2 --name crash "$id"
		expect "$outcome"
		assert_same "$id" "$(space-ls | cut -f1)"
		space-exec "$id" true
		assert_same '' "$(space-ls snapshots | grep -vP '\twarm\t')"
	done < <(phases branch)
	space-rm -w "$id"
}

@test "rm, of a sandbox with a checkpoint of its own" {
	while read -r phase outcome; do
		id=$(new_sandbox --name crash)
		space-pause -w "$id"
		space-resume -w "$id"
		crash "rm.$phase" space-rm -w "$id"
		expect "$outcome"
		assert_same '' "$(space-ls)"
		assert_same '' "$(space-ls snapshots | grep -vP '\twarm\t')"
	done < <(phases rm)
}

@test "rm, of a snapshot and what needs it" {
	while read -r phase outcome; do
		id=$(new_sandbox)
		snap=$(space-snap -w --name crash "$id")
		space-branch -w "$snap"
		crash "rm.$phase" space-rm -w --cascade "$snap"
		expect "$outcome"
		assert_same "$id" "$(space-ls | cut -f1)"
		space-rm -w "$id"
		assert_same '' "$(space-ls snapshots | grep -vP '\twarm\t')"
	done < <(phases rm)
}

@test "warm" {
	mem=130
	while read -r phase outcome; do
		crash "warm.$phase" space-create -w --mem ${mem}M box
		[ "$status" -ne 0 ] || space-rm -w "$output"
		assert_same '' "$(space-ls)"
		id=$(space-create -w --mem ${mem}M box)
		space-exec "$id" true
		space-rm -w "$id"
		is_whole
		mem=$((mem + 2))
	done < <(phases warm)
}

@test "import" {
	"$SPACE_TOP/tests/lib/box" "$SPACE_ROOT/box"
	while read -r phase outcome; do
		SPACE_CRASH_AT=import.$phase run --separate-stderr \
			space-import --no-warm crash "$SPACE_ROOT/box"
		[ "$status" -ne 0 ]
		new_sandbox | space-rm -w -
		if [ "$outcome" = FINISHED ]; then
			space-rm -w crash
		else
			assert_fails 3 'no such' space-ls crash
		fi
		is_whole
	done < <(phases import)
}

# A worker killed while the monitor works on its request: held back by stopping the monitor.
mid_request() { # TOOL: $status of the wait for its operation
	local id=$2 mon op worker

	mon=$(cut -d' ' -f1 "$SPACE_RUN/$id/life")
	kill -STOP "$mon"
	op=$("space-$1" "$id")
	worker=$(space-ls --json "$op" | sed 's/.*"worker":{"pid":\([0-9]*\).*/\1/')
	assert_code 5 space-opwait --timeout 2s "$op"
	kill -KILL "$worker"
	space-opwait "$op" >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
	kill -CONT "$mon"
	wait $! && status=0 || status=$?
}

@test "a worker killed while the monitor saves: what is saved is kept" {
	id=$(new_sandbox)
	mid_request snap "$id"
	assert_same 0 "$status" "$(cat "$BATS_TEST_TMPDIR/out")"
	kid=$(space-branch -w "$(cat "$BATS_TEST_TMPDIR/out")")
	space-exec "$kid" true
	mid_request pause "$id"
	assert_same 0 "$status"
	assert_same paused "$(space-ls "$id" | cut -f3)"
	space-resume -w "$id"
	mid_request branch "$id"
	assert_same 5 "$status"
	space-exec "$id" true
	space-rm -w "$kid" "$id" "$(space-ls snapshots | grep -P '\tsnapshot\t' | cut -f1)"
	assert_same '' "$(space-ls snapshots | grep -vP '\twarm\t')"
	is_whole
}

@test "a monitor and a machine killed while they are saved: the sandbox can be used or removed" {
	for who in monitor vmm; do
		id=$(new_sandbox)
		space-exec "$id" sh -c 'echo kept >/root/mark; sync; dd if=/dev/urandom of=/dev/shm/x bs=1M count=30' \
			2>/dev/null
		mon=$(cut -d' ' -f1 "$SPACE_RUN/$id/life")
		vmm=$(pgrep -P "$mon" -f qemu || pgrep -P "$mon" | head -n 1)
		op=$(space-snap "$id")
		[ $who = monitor ] && kill -KILL "$mon" || kill -KILL "$vmm"
		run --separate-stderr space-opwait "$op"
		[ "$status" -ne 0 ] || space-rm -w "$output" >/dev/null
		wait_pid "$mon" 20
		space-resume -w "$id"
		assert_same kept "$(space-exec "$id" cat /root/mark)"
		space-rm -w "$id"
		is_whole
	done
}
