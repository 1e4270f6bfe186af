# SPDX-License-Identifier: Apache-2.0
# The examples of the manual pages and the README's session, run. A test is called as the page that it runs.

load ../lib/space

setup_file() { space_setup_file debian; }
teardown_file() { space_teardown_file; }

setup() {
	page=$SPACE_TOP/man/$BATS_TEST_DESCRIPTION
}

# What a page leaves behind is not the next page's.
teardown() {
	space_rm_all sandboxes
	own=$(space-ls snapshots | awk -F '\t' '$3 == "snapshot" { print $1 }')
	[ -z "$own" ] || space-rm -w - >/dev/null <<<"$own"
}

@test "README.md" { "$SPACE_TOP/tests/lib/examples" "$SPACE_TOP/README.md"; }
@test "space.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space.7" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-attach.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-branch.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-cp.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-create.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-doctor.8" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-events.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-exec.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-exit.7" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-guest.8" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-import.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-kill.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-log.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-ls.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-names.7" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-opwait.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-pause.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-ps.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-resume.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-rm.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-snap.1" { "$SPACE_TOP/tests/lib/examples" "$page"; }
@test "space-state.5" { "$SPACE_TOP/tests/lib/examples" "$page"; }

@test "every page that shows something to run is run here" {
	for f in "$SPACE_TOP"/man/*.[0-9]; do
		grep -q '^\$ ' "$f" || continue
		grep -q "^@test \"$(basename "$f")\" " "$BATS_TEST_FILENAME" || { echo "$f"; false; }
	done
}
