#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Operations: records, waiting, queueing, repeated requests.

load ../lib/space

setup_file() { space_setup_file; }
teardown_file() { space_teardown_file; }

@test "a record has phases with times, results, and an end" {
	op=$(space-create box)
	id=$(space-opwait "$op")
	space-ls --json "$op" | python3 -c '
import json, sys
o = json.load(sys.stdin)
assert o["kind"] == "create" and o["state"] == "succeeded", o
names = [p["name"] for p in o["phases"]]
assert names == ["image", "build", "commit", "start", "ready", "end"], names
times = [int(p["at"]) for p in o["phases"]]
assert times == sorted(times) and int(o["ended"]) >= times[-1], o
assert len(o["results"]) == 1, o'
	space-rm -w "$id"
}

@test "a failed one ends with the code and the message that the tool prints" {
	id=$(new_sandbox)
	pid=$(cut -d' ' -f1 "$SPACE_RUN/$id/life")
	# Behind a pause that waits in the queue, so that it is refused in its turn and not before.
	kill -STOP "$pid"
	one=$(space-pause "$id")
	two=$(space-snap --name late "$id")
	kill -KILL "$pid"
	assert_code 1 space-opwait "$one"
	assert_fails 4 'only its files' space-opwait "$two"
	assert_match '"code":"conflict","exit":4' "$(space-ls --json "$two")"
	assert_fails 3 'no such' space-ls late
	space-rm -w "$id"
}

@test "operations on one sandbox go in the order in which they were asked for" {
	id=$(new_sandbox)
	ops=()
	for _ in 1 2 3; do
		ops+=("$(space-pause "$id")" "$(space-resume "$id")")
	done
	ops+=("$(space-snap "$id")")
	space-opwait "${ops[@]}" >"$BATS_TEST_TMPDIR/out"
	assert_same 7 "$(wc -l <"$BATS_TEST_TMPDIR/out")"
	ends=$(space-ls --json "${ops[@]}" | sed 's/.*"ended":"\([0-9]*\)".*/\1/')
	assert_same "$ends" "$(echo "$ends" | sort -n)"
	snap=$(tail -n 1 "$BATS_TEST_TMPDIR/out")
	space-rm -w "$id" "$snap" >/dev/null
}

@test "space-opwait: nothing to wait for, unknown ones, a timeout, the worst code" {
	assert_fails 2 'nothing to wait for' space-opwait </dev/null
	assert_fails 3 'no such operation' space-opwait o00000000000000000000
	assert_fails 3 'no such operation' space-opwait box
	id=$(new_sandbox)
	pid=$(cut -d' ' -f1 "$SPACE_RUN/$id/life")
	kill -STOP "$pid"
	op=$(space-snap "$id")
	assert_code 5 space-opwait --timeout 1s "$op"
	kill -CONT "$pid"
	snap=$(space-opwait "$op")
	run --separate-stderr space-opwait "$op" nobody
	assert_same "3 $snap" "$status $output"
	space-rm -w "$id" "$snap" >/dev/null
}

@test "a repeated request for a pause is the same pause" {
	id=$(new_sandbox)
	one=$(space-pause --request-id p1 "$id")
	two=$(space-pause --request-id p1 "$id")
	assert_same "$one" "$two"
	space-opwait "$one"
	space-resume -w "$id"
	# Long done: it does not pause again.
	assert_same "$id" "$(space-pause -w --request-id p1 "$id")"
	assert_same running "$(space-ls "$id" | cut -f3)"
	space-rm -w "$id"
}

@test "--json: the operation at once, or its end" {
	assert_match '^\{"op":"o[a-z0-9]{20}"\}$' "$(space-create --json box | tee "$BATS_TEST_TMPDIR/op")"
	op=$(json_get op <"$BATS_TEST_TMPDIR/op")
	assert_match '"state":"succeeded","results":\[\{"id":"s' "$(space-opwait --json "$op")"
	run --separate-stderr space-pause -w --json nobody
	assert_same 3 "$status"
	assert_same '' "$output"
	assert_match '"code":"absent".*"exit":3' "$stderr"
	space-rm -w "$(space-opwait "$op")"
}

@test "killing the tool that waits does not stop the operation" {
	SPACE_TEST=1 space-create -w --name survivor box >/dev/null 3>&- &
	pid=$!
	wait_event '' '"what":"op' 1 >/dev/null 2>&1 || true
	kill -KILL $pid 2>/dev/null || true
	wait $pid 2>/dev/null || true
	space_wait_ops
	id=$(space-ls | awk -F '\t' '$2 == "survivor" { print $1 }')
	# It was killed before the operation began, or the operation was finished.
	[ -z "$id" ] || space-rm -w "$id"
	assert_same '' "$(ls "$SPACE_STATE/store/queue")"
}
