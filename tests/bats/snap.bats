#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# space-snap: full and of files only, of running, paused and dead sandboxes.

load ../lib/space

setup_file() { space_setup_file; }
teardown_file() { space_teardown_file; }

@test "a full snapshot while it runs; a branch of it has the memory of then" {
	id=$(new_sandbox)
	space-exec "$id" sh -c 'echo before >/run/mark; echo before >/root/mark'
	snap=$(space-snap -w "$id")
	assert_match '^c[a-z0-9]{20}$' "$snap"
	space-exec "$id" sh -c 'echo after >/run/mark; echo after >/root/mark'
	two=$(space-branch -w "$snap")
	assert_same before "$(space-exec "$two" cat /run/mark)" memory
	assert_same before "$(space-exec "$two" cat /root/mark)" disk
	assert_same after "$(space-exec "$id" cat /run/mark)" source
	space-rm -w "$id" "$two" "$snap" >/dev/null
}

@test "--files holds the disk only, clean, and boots cold" {
	id=$(new_sandbox)
	space-exec "$id" sh -c 'echo on-disk >/root/mark; echo in-memory >/run/mark'
	snap=$(space-snap -w --files "$id")
	assert_same files "$(space-ls "$snap" | cut -f4)"
	[ ! -e "$SPACE_STATE/store/checkpoints/$snap/mem" ]
	e2fsck -fn "$SPACE_STATE/store/checkpoints/$snap/rootfs.img"
	two=$(space-branch -w "$snap")
	assert_same on-disk "$(space-exec "$two" cat /root/mark)"
	assert_code 1 space-exec "$two" test -e /run/mark
	space-rm -w "$id" "$two" "$snap" >/dev/null
}

@test "a name for it" {
	id=$(new_sandbox)
	snap=$(space-snap -w --name nightly "$id")
	assert_same "$snap" "$(space-ls nightly | cut -f1)"
	assert_fails 4 taken space-snap -w --name nightly "$id"
	space-rm -w nightly >/dev/null
	assert_fails 3 'no such' space-ls nightly
	space-rm -w "$id"
}

@test "of a paused one, full and of files" {
	id=$(new_sandbox)
	space-exec "$id" sh -c 'echo here >/run/mark'
	space-pause -w "$id"
	full=$(space-snap -w "$id")
	files=$(space-snap -w --files "$id")
	two=$(space-branch -w "$full")
	assert_same here "$(space-exec "$two" cat /run/mark)"
	[ ! -e "$SPACE_STATE/store/checkpoints/$files/mem" ]
	space-rm -w "$two" "$id" "$full" "$files" >/dev/null
}

@test "of a dead one, files alone" {
	id=$(new_sandbox)
	space-exec "$id" sh -c 'echo kept >/root/mark; sync'
	pid=$(cut -d' ' -f1 "$SPACE_RUN/$id/life")
	kill -KILL "$pid"
	wait_pid "$pid" 10
	assert_fails 4 'only its files' space-snap -w "$id"
	snap=$(space-snap -w --files "$id")
	two=$(space-branch -w "$snap")
	assert_same kept "$(space-exec "$two" cat /root/mark)"
	space-rm -w "$id" "$two" "$snap" >/dev/null
}

@test "snapshots survive their sandbox" {
	id=$(new_sandbox)
	snap=$(space-snap -w "$id")
	space-rm -w "$id"
	two=$(space-branch -w "$snap")
	space-exec "$two" true
	space-rm -w "$two" "$snap" >/dev/null
}

@test "a disk taken under load replays cleanly" {
	id=$(new_sandbox)
	space-exec -d "$id" sh -c 'while :; do dd if=/dev/urandom of=/root/$RANDOM bs=4k count=20; done' \
		>/dev/null
	for _ in 1 2 3; do
		snap=$(space-snap -w "$id")
		cp --sparse=always "$SPACE_STATE/store/checkpoints/$snap/rootfs.img" \
			"$BATS_TEST_TMPDIR/disk"
		e2fsck -p "$BATS_TEST_TMPDIR/disk" || [ $? -le 1 ]
		e2fsck -fn "$BATS_TEST_TMPDIR/disk"
		two=$(space-branch -w "$snap")
		space-exec "$two" sh -c 'sync; ! dmesg | grep -i "ext4.*error"'
		space-rm -w "$two" "$snap" >/dev/null
	done
	space-rm -w "$id"
}
