#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A host whose disk is nearly full: operations are refused in time, with figures; nothing half made
# stays; what runs goes on; and when there is room again, all is as before.

load ../lib/space

setup_file() {
	space_setup_file empty
	# A small disk of the host's, with the state root on it.
	truncate -s 1750M "$SPACE_ROOT/disk"
	mkfs.ext4 -q -m 0 "$SPACE_ROOT/disk"
	mkdir "$SPACE_ROOT/small"
	mount -o loop "$SPACE_ROOT/disk" "$SPACE_ROOT/small"
	mkdir -m 0700 "$SPACE_ROOT/small/state" "$SPACE_ROOT/small/run"
	export SPACE_STATE=$SPACE_ROOT/small/state SPACE_RUN=$SPACE_ROOT/small/run
	"$SPACE_TOP/tests/lib/template" box "$SPACE_STATE" 3>&-
}

teardown_file() {
	space_empty || true
	space_unmount || true
	umount "$SPACE_ROOT/small" || umount -l "$SPACE_ROOT/small"
	unset SPACE_STATE SPACE_RUN
	space_teardown_file
}

state() { (cd "$SPACE_STATE/store" && find sandboxes checkpoints names queue warm ops | sort); }

@test "create, snap, branch, pause and import are refused with figures, and nothing changes" {
	id=$(new_sandbox)
	space-exec "$id" sh -c 'echo kept >/root/kept'
	free=$(df -k --output=avail "$SPACE_STATE/store" | tail -n 1)
	fallocate -l $((free - 300 * 1024))K "$SPACE_STATE/store/filler"
	before=$(state)
	for c in "create -w box" "snap -w $id" "branch -w $id" "pause -w $id" "import x /usr/share/empty"; do
		# shellcheck disable=SC2086 # words
		assert_fails 5 '' space-$c
		assert_match '[0-9]+' "$stderr"
	done
	assert_same "$before" "$(state)"
	assert_same kept "$(space-exec "$id" cat /root/kept)"
	rm "$SPACE_STATE/store/filler"
	space-pause -w "$id" >/dev/null
	space-resume -w "$id" >/dev/null
	kid=$(space-branch -w "$id")
	assert_same kept "$(space-exec "$kid" cat /root/kept)"
	space-rm -w "$id" "$kid" >/dev/null
}

@test "a full store can be emptied" {
	id=$(new_sandbox)
	free=$(df -k --output=avail "$SPACE_STATE/store" | tail -n 1)
	fallocate -l $((free - 20 * 1024))K "$SPACE_STATE/store/filler"
	assert_same "$id" "$(space-rm -w "$id")"
	assert_same '' "$(space-ls)"
	rm "$SPACE_STATE/store/filler"
}
