#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# space-rm: from every state, refusing what others need.

load ../lib/space

setup_file() { space_setup_file; }
teardown_file() { space_teardown_file; }

@test "running, paused, dead, stopped: all can be removed, once" {
	mapfile -t ids < <(new_sandbox -n 3)
	space-pause -w "${ids[1]}"
	pid=$(cut -d' ' -f1 "$SPACE_RUN/${ids[2]}/life")
	kill -KILL "$pid"
	wait_pid "$pid" 10
	for id in "${ids[@]}"; do
		assert_same "$id" "$(space-rm -w "$id")"
		[ ! -e "$SPACE_STATE/store/sandboxes/$id" ]
		[ ! -e "$SPACE_RUN/$id" ]
		assert_fails 3 'no such' space-rm -w "$id"
	done
}

@test "a damaged record can be removed" {
	id=$(new_sandbox)
	echo nonsense >"$SPACE_STATE/store/sandboxes/$id/record.json"
	assert_match damaged "$(space-ls | grep "^$id")"
	space-rm -w "$id"
	assert_fails 3 'no such' space-ls "$id"
}

@test "a snapshot that a sandbox runs on is kept unless --cascade" {
	id=$(new_sandbox)
	snap=$(space-snap -w "$id")
	kid=$(space-branch -w "$snap")
	assert_fails 4 "sandbox $kid needs it" space-rm -w "$snap"
	space-exec "$kid" true
	assert_same "$snap" "$(space-rm -w --cascade "$snap")"
	assert_fails 3 'no such' space-ls "$kid"
	assert_fails 3 'no such' space-ls "$snap"
	space-exec "$id" true
	space-rm -w "$id"
}

@test "the checkpoint of a paused sandbox is kept" {
	id=$(new_sandbox)
	space-pause -w "$id"
	checkpoint=$(space-ls --json "$id" | json_get paused)
	assert_fails 4 "sandbox $id needs it" space-rm -w "$checkpoint"
	space-resume -w "$id"
	assert_fails 4 "sandbox $id needs it" space-rm -w "$checkpoint"
	space-rm -w "$id"
}

@test "an image goes with its warm checkpoints; not while sandboxes run on them" {
	"$SPACE_TOP/tests/lib/box" "$SPACE_ROOT/box"
	space-import --mem 128M spare "$SPACE_ROOT/box" >/dev/null
	id=$(space-create -w spare)
	image=$(space-ls spare | cut -f1)
	warm=$(space-ls --json "$id" | json_get base)
	assert_fails 4 "sandbox $id needs it" space-rm -w spare
	space-rm -w "$id"
	assert_same "$image" "$(space-rm -w spare)"
	assert_fails 3 'no such' space-ls spare
	assert_fails 3 'no such' space-ls "$warm"
	[ ! -e "$SPACE_STATE/store/warm/$image" ]
}

@test "--cascade takes an image's sandboxes along" {
	"$SPACE_TOP/tests/lib/box" "$SPACE_ROOT/box2"
	space-import --mem 128M spare "$SPACE_ROOT/box2" >/dev/null
	mapfile -t ids < <(space-create -w -n 2 spare)
	assert_fails 4 '2 sandboxes need it' space-rm -w spare
	space-rm -w --cascade spare
	for id in "${ids[@]}"; do
		assert_fails 3 'no such' space-ls "$id"
		[ ! -e "$SPACE_RUN/$id" ]
	done
}

@test "ids from standard input, blank lines passed over" {
	new_sandbox -n 2 >"$BATS_TEST_TMPDIR/ids"
	echo >>"$BATS_TEST_TMPDIR/ids"
	assert_same "$(grep . "$BATS_TEST_TMPDIR/ids")" "$(space-rm -w - <"$BATS_TEST_TMPDIR/ids")"
	assert_same '' "$(space-ls)"
}
