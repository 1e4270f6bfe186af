#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The tools put together in a shell, as the pages show them.

load ../lib/space

setup_file() { space_setup_file; }
teardown_file() { space_teardown_file; }

@test "create, wait, use" {
	assert_match '^[0-9]+\.[0-9]+' \
		"$(space-create box | space-opwait | xargs -I{} space-exec {} uname -r)"
	space-ls | cut -f1 | space-rm -w -
}

@test "five made and removed in one line" {
	assert_same 5 "$(space-create -n 5 box | space-opwait | space-rm -w - | wc -l)"
	assert_same '' "$(space-ls)"
}

@test "what was created can be used at once" {
	sb=$(space-create -w box)
	assert_same ok "$(space-exec "$sb" echo ok)"
	space-rm "$sb" | space-opwait
	assert_same '' "$(space-ls)"
}

@test "pause all, resume all, remove all" {
	space-create -w -n 3 box >/dev/null
	assert_same 3 "$(space-ls | cut -f1 | space-pause -w - | wc -l)"
	assert_same 3 "$(space-ls | awk '$3 == "paused" || $2 == "paused"' | wc -l)"
	assert_same 3 "$(space-ls | cut -f1 | space-resume - | space-opwait | wc -l)"
	assert_same 3 "$(space-ls | space-rm -w - | wc -l)"
}

@test "snapshot, branch, and the lot removed, each by what the one before printed" {
	sb=$(space-create -w box)
	space-snap "$sb" | space-opwait | space-branch -w -n 2 - | space-rm -w - >/dev/null
	space-rm -w "$sb"
	space-ls snapshots | grep -P '\tsnapshot\t' | space-rm -w - >/dev/null
}

@test "a failure stops the line with its code" {
	run bash -c 'set -o pipefail; space-create nobody 2>/dev/null | space-opwait 2>/dev/null'
	assert_same 2 "$status"
	run bash -c 'space-create nobody | space-opwait | space-rm -w -' 2>/dev/null
	assert_same '' "$(space-ls)"
}

@test "a pipe from a tool that works on behind it ends when the tool does" {
	# Were the worker to hold standard output, cat would wait for the whole operation.
	id=$(new_sandbox)
	pid=$(cut -d' ' -f1 "$SPACE_RUN/$id/life")
	kill -STOP "$pid"
	op=$(timeout 20 sh -c "space-snap $id | cat")
	assert_match '^o' "$op"
	kill -CONT "$pid"
	space-opwait "$op" | space-rm -w - >/dev/null
	space-rm -w "$id"
}

@test "space runs a tool by its verb" {
	sb=$(space create -w box)
	assert_same "$sb" "$(space ls | cut -f1)"
	assert_same 3 "$(space exec "$sb" sh -c 'exit 3' >/dev/null; echo $?)"
	space rm -w "$sb"
}
