#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# space-doctor: one line a check, the code, without root, with things missing.

load ../lib/space

setup_file() { space_setup_file empty; }
teardown_file() { space_teardown_file; }

# level NAME: of one check.
level() { space-doctor | awk -F '\t' -v n="$1" '$2 == n { print $1 }'; }

@test "each line is a level, a name, a text and a command" {
	run --separate-stderr space-doctor
	[ "${#lines[@]}" -ge 15 ]
	for line in "${lines[@]}"; do
		assert_match '^(ok|warn|fail)	[a-z0-9._-]+	[^	]+	[^	]+$' "$line"
	done
	assert_same "" "$stderr"
}

@test "what sandboxes need is here, but for a kernel" {
	run --separate-stderr space-doctor
	assert_same 7 "$status" status
	assert_same kernel "$(grep ^fail <<<"$output" | cut -f2)"
	assert_same "space-kernel add" "$(grep ^fail <<<"$output" | cut -f4)"
}

@test "with a kernel nothing is missing" {
	space-kernel add --deb "$("$SPACE_TOP/tests/lib/kernel")"
	run --separate-stderr space-doctor
	assert_same 0 "$status" status
	assert_same "" "$(grep ^fail <<<"$output" || true)"
}

@test "--json says the same" {
	run --separate-stderr space-doctor --json
	assert_same 0 "$status" status
	assert_same 1 "${#lines[@]}"
	names=$(python3 -c 'import json, sys
for c in json.load(sys.stdin)["checks"]:
    assert c["ok"] == (c["level"] != "fail")
    print(c["level"], c["name"], sep="\t")' <<<"$output")
	assert_same "$(space-doctor | cut -f1,2)" "$names"
}

@test "KVM is found real or told why not, the same twice" {
	first=$(space-doctor | grep '	kvm	')
	assert_same "$first" "$(space-doctor | grep '	kvm	')"
	if [ -e /dev/kvm ]; then
		assert_match "^$(cat /proc/sys/kernel/random/boot_id) [0-9]+ (yes|no) ." "$(cat /run/space-kvm)"
	fi
}

@test "without root it tells what it can" {
	dir=$(mktemp -d) # where nobody may go, unlike the build folder perhaps
	chmod 755 "$dir"
	cp "$SPACE_BIN/space-doctor" "$dir"
	run --separate-stderr setpriv --reuid=65534 --regid=65534 --clear-groups "$dir/space-doctor"
	rm -r "$dir"
	assert_same "sudo space-doctor" "$(grep '	jail	' <<<"$output" | cut -f4)"
	assert_match '^ok	qemu	' "$(grep '	qemu	' <<<"$output")"
}

@test "no room for a store is told" {
	mkdir "$BATS_TEST_TMPDIR/small"
	mount -t tmpfs -o size=64m none "$BATS_TEST_TMPDIR/small"
	run --separate-stderr env SPACE_STATE="$BATS_TEST_TMPDIR/small/state" space-doctor
	umount "$BATS_TEST_TMPDIR/small"
	assert_same 7 "$status" status
	assert_match '^fail	disk	.* needed' "$(grep '	disk	' <<<"$output")"
}

@test "it makes nothing" {
	state=$BATS_TEST_TMPDIR/none
	SPACE_STATE=$state SPACE_RUN=$state.run run space-doctor
	[ ! -e "$state" ]
}

@test "wrong use" {
	assert_fails 2 'no operands' space-doctor x
	assert_fails 2 bogus space-doctor --bogus
}
