#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# space-branch: children go on from the same instant, each on its own.

load ../lib/space

setup_file() { space_setup_file; }
teardown_file() { space_teardown_file; }

@test "children of a running sandbox begin with its memory and then differ" {
	id=$(new_sandbox)
	space-exec "$id" sh -c 'echo 7 >/run/n; echo 7 >/root/n'
	mapfile -t kids < <(space-branch -w -n 3 "$id")
	assert_same 3 "${#kids[@]}"
	for i in 0 1 2; do
		assert_same 7 "$(space-exec "${kids[i]}" cat /run/n)"
		space-exec "${kids[i]}" sh -c "echo kid$i >/run/n; echo kid$i >/root/n"
	done
	for i in 0 1 2; do
		assert_same "kid$i kid$i" "$(space-exec "${kids[i]}" sh -c 'echo $(cat /run/n /root/n)')"
	done
	assert_same '7 7' "$(space-exec "$id" sh -c 'echo $(cat /run/n /root/n)')" source
	# The checkpoint between them goes with the last child.
	assert_same 1 "$(space-ls snapshots | cut -f3 | grep -c branch)"
	space-rm -w "${kids[@]}" >/dev/null
	assert_same 0 "$(space-ls snapshots | cut -f3 | grep -c branch)"
	space-rm -w "$id"
}

@test "each child is somebody else: hostname, machine id, random bytes, clock" {
	id=$(new_sandbox)
	mapfile -t kids < <(space-branch -w -n 2 --name kid "$id")
	assert_same kid-1 "$(space-exec "${kids[0]}" hostname)"
	assert_same kid-2 "$(space-exec "${kids[1]}" hostname)"
	for what in 'cat /etc/machine-id' 'head -c 16 /dev/urandom | md5sum'; do
		all=$(for s in "$id" "${kids[@]}"; do space-exec "$s" sh -c "$what"; done | sort -u | wc -l)
		assert_same 3 "$all" "$what"
	done
	for s in "${kids[@]}"; do
		d=$(($(space-exec "$s" date +%s) - $(date +%s)))
		[ ${d#-} -le 1 ]
	done
	space-rm -w "$id" "${kids[@]}" >/dev/null
}

@test "of a paused sandbox, which stays paused; its checkpoint stays as long as a child needs it" {
	id=$(new_sandbox)
	space-exec "$id" sh -c 'echo 5 >/run/n'
	space-pause -w "$id"
	kid=$(space-branch -w "$id")
	assert_same paused "$(space-ls "$id" | cut -f3)"
	assert_same 5 "$(space-exec "$kid" cat /run/n)"
	space-rm -w "$id"
	assert_same 1 "$(space-ls snapshots | cut -f3 | grep -c pause)"
	assert_same 5 "$(space-exec "$kid" cat /run/n)"
	space-rm -w "$kid"
	assert_same 0 "$(space-ls snapshots | cut -f3 | grep -c pause)"
}

@test "of an image, as create" {
	kid=$(space-branch -w box)
	space-exec "$kid" true
	space-rm -w "$kid"
}

@test "a branch of a branch of a branch" {
	id=$(new_sandbox)
	all=$id
	for i in 1 2 3; do
		space-exec "$id" sh -c "echo $i >>/run/line"
		id=$(space-branch -w "$id")
		all="$all $id"
	done
	assert_same '1 2 3' "$(space-exec "$id" sh -c 'echo $(cat /run/line)')"
	# shellcheck disable=SC2086 # one id a word
	space-rm -w $all >/dev/null
}

@test "some fail: the good ones are listed, the code tells" {
	id=$(new_sandbox)
	taken=$(new_sandbox --name part-2)
	assert_fails 4 "'part-2' is taken" space-branch -w -n 3 --name part "$id"
	space-rm -w "$id" "$taken" >/dev/null
}

@test "a dead sandbox cannot be branched" {
	id=$(new_sandbox)
	pid=$(cut -d' ' -f1 "$SPACE_RUN/$id/life")
	kill -KILL "$pid"
	wait_pid "$pid" 10
	assert_fails 4 'is dead' space-branch -w "$id"
	space-rm -w "$id"
}
