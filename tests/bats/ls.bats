#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# space-ls and space-events.

load ../lib/space

setup_file() { space_setup_file; }
teardown_file() { space_teardown_file; }

@test "nothing there yet is an empty list, not an error" {
	mkdir -m 0700 "$BATS_TEST_TMPDIR/s" "$BATS_TEST_TMPDIR/r"
	SPACE_STATE=$BATS_TEST_TMPDIR/s SPACE_RUN=$BATS_TEST_TMPDIR/r assert_code 0 space-ls
	assert_same '' "$output"
	SPACE_STATE=$BATS_TEST_TMPDIR/s SPACE_RUN=$BATS_TEST_TMPDIR/r assert_fails 3 'no' space-ls box
}

@test "columns of sandboxes, images, snapshots and operations" {
	id=$(new_sandbox --name col)
	snap=$(space-snap -w --files --name colsnap "$id")
	image=$(space-ls images | cut -f1)
	assert_match "^$id	col	running	$image	1	128M	[0-9A-Z]+	(tcg|kvm)	20[0-9TZ:.-]+$" \
		"$(space-ls)"
	assert_match "^$image	box	1	128M	[0-9A-Z]+	20[0-9TZ:.-]+$" "$(space-ls images)"
	assert_match "^$snap	colsnap	snapshot	files	$id	20" "$(space-ls snapshots | grep "^$snap")"
	assert_match "^o[a-z0-9]+	snap	succeeded	$id	20" \
		"$(space-ls ops | grep -P '\tsnap\t' | tail -n 1)"
	space-rm -w "$id" "$snap" >/dev/null
}

@test "--json is one object a line, with the record" {
	mapfile -t ids < <(new_sandbox -n 2)
	assert_same 2 "$(space-ls --json | wc -l)"
	space-ls --json | python3 -c '
import json, sys
for line in sys.stdin:
    o = json.loads(line)
    assert o["type"] == "sandbox" and o["state"] == "running", o
    assert o["machine"]["accel"] in ("tcg", "kvm"), o'
	space-rm -w "${ids[@]}" >/dev/null
}

@test "operands: ids and names of every kind, in the order asked; an unknown one is code 3" {
	id=$(new_sandbox --name op1)
	op=$(space-ls ops | tail -n 1 | cut -f1)
	assert_same "$(printf '%s\n' "$op" "$id")" "$(space-ls "$op" op1 | cut -f1)"
	assert_fails 3 'nobody: no such' space-ls op1 nobody
	space-rm -w "$id"
}

@test "--tree: parents before children, with bytes" {
	id=$(new_sandbox --name root1)
	kid=$(space-branch -w --name leaf1 "$id")
	out=$(space-ls --tree)
	assert_match $'image\tbox.*warm.*sandbox \(running\)\troot1.*branch.*sandbox \(running\)\tleaf1' \
		"$(echo $out | sed 's/ image box/ image\tbox/; s/ root1/\troot1/; s/ leaf1/\tleaf1/')"
	assert_match "^$id	 *└─ sandbox \(running\)	root1	[0-9]+[KMG]?	[0-9]+[KMG]?$" \
		"$(echo "$out" | grep "^$id")"
	space-rm -w "$id" "$kid" >/dev/null
}

@test "an idle branch adds less than 2 MiB" {
	id=$(new_sandbox)
	space-exec "$id" sync
	mapfile -t kids < <(space-branch -w -n 3 "$id")
	for kid in "${kids[@]}"; do
		u=$(space-ls --bytes --json "$kid" | json_get unique)
		[ "$u" -lt $((2 << 20)) ] || { echo "$kid has $u bytes of its own"; false; }
	done
	space-rm -w "$id" "${kids[@]}" >/dev/null
}

@test "a thousand records are listed in time" {
	store=$SPACE_STATE/store/sandboxes
	id=$(new_sandbox)
	record=$(cat "$store/$id/record.json")
	for i in $(seq 1000 1999); do
		mkdir "$store/szzzzzzzzzzzzzzzz$i"
		echo "${record//$id/szzzzzzzzzzzzzzzz$i}" >"$store/szzzzzzzzzzzzzzzz$i/record.json"
	done
	assert_same 1001 "$(space-ls | wc -l)"
	best=999999999999
	for _ in 1 2 3 4 5; do
		a=$(date +%s%N)
		space-ls >/dev/null
		b=$(($(date +%s%N) - a))
		[ $b -ge $best ] || best=$b
	done
	rm -rf "$store"/szzzzzzzzzzzzzzzz*
	echo "# best of 5: $((best / 1000)) us" >&3
	[ $best -lt 100000000 ]
	space-rm -w "$id"
}

@test "events: what happened, in order, with --since and --follow" {
	mark=$(event_mark)
	id=$(new_sandbox)
	space-pause -w "$id"
	space-rm -w "$id"
	mine=$(space-events --since "$mark" | grep "\"$id\"" | sed 's/.*"what":"\([^"]*\)".*/\1/')
	assert_same 'sandbox.created sandbox.paused sandbox.removed' \
		"$(echo "$mine" | grep ^sandbox | xargs)"
	wait_event "$mark" "sandbox.removed.*$id" 10
	assert_fails 2 'not a sequence number' space-events --since yesterday
}
