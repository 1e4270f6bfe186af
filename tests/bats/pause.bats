#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# space-pause and space-resume: memory and disk come back together.

load ../lib/space

setup_file() { space_setup_file; }
teardown_file() { space_teardown_file; }

# A counter in memory (a shell variable), told by a file in tmpfs that it writes.
start_counter() {
	space-exec -d "$1" sh -c 'i=0; while :; do i=$((i+1)); echo $i >/run/count; sleep 0.1; done' \
		>/dev/null
	space-exec "$1" sh -c 'until [ -s /run/count ]; do sleep 0.1; done'
}
count() { space-exec "$1" cat /run/count; }

@test "a process in memory goes on where it was" {
	id=$(new_sandbox)
	start_counter "$id"
	a=$(count "$id")
	assert_same "$id" "$(space-pause -w "$id")"
	assert_same paused "$(space-ls "$id" | cut -f3)"
	assert_fails 4 'not running' space-exec "$id" true || assert_code 125 space-exec "$id" true
	assert_same "$id" "$(space-resume -w "$id")"
	assert_same running "$(space-ls "$id" | cut -f3)"
	b=$(count "$id")
	[ "$b" -ge "$a" ] && [ "$b" -le $((a + 100)) ] || { echo "$a then $b"; false; }
	space-rm -w "$id"
}

@test "pause of a paused one and resume of a running one are done at once" {
	id=$(new_sandbox)
	assert_same "$id" "$(space-resume -w "$id")"
	space-pause -w "$id"
	checkpoint=$(space-ls --json "$id" | json_get paused)
	assert_same "$id" "$(space-pause -w "$id")"
	assert_same "$checkpoint" "$(space-ls --json "$id" | json_get paused)"
	space-rm -w "$id"
	assert_fails 3 'no such' space-ls "$checkpoint"
}

@test "cycles with random writes between them: every file is what it was" {
	id=$(new_sandbox)
	for i in 1 2 3 4; do
		space-exec "$id" sh -c "dd if=/dev/urandom of=/root/f$i bs=64k count=$((i * 7)) 2>/dev/null
			[ $((i % 2)) -eq 0 ] || sync"
		sums=$(space-exec "$id" sh -c 'md5sum /root/f*')
		space-pause -w "$id" >/dev/null
		space-resume -w "$id" >/dev/null
		assert_same "$sums" "$(space-exec "$id" sh -c 'md5sum /root/f*')" "cycle $i, cached"
		space-exec "$id" sh -c 'sync; echo 3 >/proc/sys/vm/drop_caches'
		assert_same "$sums" "$(space-exec "$id" sh -c 'md5sum /root/f*')" "cycle $i, disk"
	done
	# One checkpoint stays: that which it runs on.
	assert_same 1 "$(space-ls snapshots | cut -f3 | grep -c pause)"
	space-rm -w "$id"
	assert_same 0 "$(space-ls snapshots | cut -f3 | grep -c pause)"
}

@test "a paused sandbox keeps no disk of its own" {
	id=$(new_sandbox)
	space-pause -w "$id"
	[ ! -e "$SPACE_STATE/store/sandboxes/$id/vol" ]
	space-rm -w "$id"
}

@test "the clock is right after a resume" {
	id=$(new_sandbox)
	space-pause -w "$id"
	sleep 2
	space-resume -w "$id"
	d=$(($(space-exec "$id" date +%s) - $(date +%s)))
	[ ${d#-} -le 1 ] || { echo "off by $d s"; false; }
	space-rm -w "$id"
}

@test "a killed machine is shown as dead, cannot be paused, and boots from its own disk" {
	id=$(new_sandbox)
	space-exec "$id" sh -c 'echo kept >/root/kept; sync'
	pid=$(cut -d' ' -f1 "$SPACE_RUN/$id/life")
	kill -KILL "$pid"
	wait_pid "$pid" 10
	assert_same dead "$(space-ls "$id" | cut -f3)"
	assert_fails 4 'is dead' space-pause -w "$id"
	space-resume -w "$id"
	assert_same running "$(space-ls "$id" | cut -f3)"
	assert_same kept "$(space-exec "$id" cat /root/kept)"
	space-rm -w "$id"
}

@test "a guest that powers off is shown as stopped, and boots again" {
	id=$(new_sandbox)
	pid=$(cut -d' ' -f1 "$SPACE_RUN/$id/life")
	space-exec "$id" sh -c 'echo kept >/root/kept; sync; echo o >/proc/sysrq-trigger' || true
	wait_pid "$pid" 30
	assert_same stopped "$(space-ls "$id" | cut -f3)"
	assert_fails 4 'is stopped' space-pause -w "$id"
	space-resume -w "$id"
	assert_same kept "$(space-exec "$id" cat /root/kept)"
	space-rm -w "$id"
}

@test "several at once, good and bad: every good one is done, the worst code is told" {
	mapfile -t ids < <(new_sandbox -n 2)
	run --separate-stderr space-pause -w "${ids[0]}" nobody "${ids[1]}"
	assert_same 3 "$status"
	assert_same "${ids[0]} ${ids[1]}" "$(xargs <<<"$output")"
	assert_match 'nobody: no such' "$stderr"
	space-rm -w "${ids[@]}" >/dev/null
}
