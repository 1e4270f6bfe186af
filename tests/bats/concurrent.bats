#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Tools at the same time: on one sandbox in order, on different ones in parallel, never half and half.

load ../lib/space

setup_file() { space_setup_file; }
teardown_file() { space_teardown_file; }

# Runs commands (one argument each) at once; statuses in STATUS, outputs in $BATS_TEST_TMPDIR/N.
at_once() {
	local i=0 pids=() c

	STATUS=()
	for c in "$@"; do
		sh -c "$c" >"$BATS_TEST_TMPDIR/$i" 2>"$BATS_TEST_TMPDIR/$i.err" 3>&- &
		pids+=($!)
		i=$((i + 1))
	done
	for c in "${pids[@]}"; do
		wait "$c" && STATUS+=(0) || STATUS+=($?)
	done
}

remove() { # LIST: what its lines name, if any
	[ -z "$1" ] || printf '%s\n' "$1" | space-rm -w - >/dev/null
}

# Every pair of tools on one sandbox ends with codes that fit, and a sandbox that can be used.
@test "every pair of tools on one sandbox" {
	for a in pause resume snap branch rm; do
		for b in pause resume snap branch rm; do
			id=$(new_sandbox)
			at_once "space-$a -w $id" "space-$b -w $id"
			for s in "${STATUS[@]}"; do
				case $s in
				0) ;;
				3) [ $a = rm ] || [ $b = rm ] ;; # gone before its turn
				*) echo "$a and $b: ${STATUS[*]}: $(cat "$BATS_TEST_TMPDIR"/?.err)"; false ;;
				esac
			done
			case $a$b in
			*rm*) assert_fails 3 'no such' space-ls "$id" ;;
			*)
				space-resume -w "$id" >/dev/null
				space-exec "$id" true
				space-rm -w "$id" >/dev/null
				;;
			esac
			[ $a$b != rmrm ] || assert_same 3 $((STATUS[0] + STATUS[1]))
			remove "$(space-ls)"
			remove "$(space-ls snapshots | grep -vP '\twarm\t')"
		done
	done
}

@test "one name for many: one gets it" {
	at_once 'space-create -w --name one box' 'space-create -w --name one box' \
		'space-create -w --name one box' 'space-create -w --name one box'
	assert_same '0 4 4 4' "$(printf '%s\n' "${STATUS[@]}" | sort | xargs)"
	assert_same 1 "$(space-ls | wc -l)"
	space-rm -w one
}

@test "one request id for many: one operation" {
	c='space-create --request-id same box'
	at_once "$c" "$c" "$c" "$c"
	assert_same '0 0 0 0' "${STATUS[*]}"
	op=$(cat "$BATS_TEST_TMPDIR"/[0-3] | sort -u)
	assert_same 1 "$(echo "$op" | wc -l)"
	space-rm -w "$(space-opwait "$op")"
	assert_same '' "$(space-ls)"
}

@test "a new shape asked for by several is booted once" {
	before=$(space-ls snapshots | grep -cP '\twarm\t')
	c='space-create -w --mem 144M box'
	at_once "$c" "$c" "$c"
	assert_same '0 0 0' "${STATUS[*]}"
	assert_same $((before + 1)) "$(space-ls snapshots | grep -cP '\twarm\t')"
	space-ls | cut -f1 | space-rm -w - >/dev/null
}

@test "creates from a snapshot that is being removed: made whole, or not at all" {
	id=$(new_sandbox)
	for _ in 1 2 3; do
		snap=$(space-snap -w "$id")
		at_once "space-branch -w -n 3 $snap" "space-rm -w $snap"
		kids=$(cat "$BATS_TEST_TMPDIR/0")
		case ${STATUS[*]} in
		'0 4') ;;   # they were first, and keep it
		'3 0') assert_same '' "$kids" ;;
		*) [ "${STATUS[0]}" -eq 3 ] || { echo "${STATUS[*]}"; cat "$BATS_TEST_TMPDIR"/?.err; false; } ;;
		esac
		for kid in $kids; do
			space-exec "$kid" true
			space-rm -w "$kid" >/dev/null
		done
		space-rm -w "$snap" >/dev/null 2>&1 || true
	done
	assert_same "$id" "$(space-ls | cut -f1)"
	space-rm -w "$id"
}

@test "ten at once, all different" {
	mapfile -t ids < <(new_sandbox -n 10)
	assert_same 10 "$(printf '%s\n' "${ids[@]}" | space-pause -w - | wc -l)"
	assert_same 10 "$(printf '%s\n' "${ids[@]}" | space-resume -w - | wc -l)"
	for id in "${ids[@]}"; do space-exec "$id" hostname; done | sort >"$BATS_TEST_TMPDIR/names"
	assert_same "$(printf '%s\n' "${ids[@]}" | sort)" "$(cat "$BATS_TEST_TMPDIR/names")"
	assert_same 10 "$(printf '%s\n' "${ids[@]}" | space-rm -w - | wc -l)"
}
