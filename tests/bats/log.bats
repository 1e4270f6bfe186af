# SPDX-License-Identifier: Apache-2.0
# space-log: the console of sandboxes that run, are paused, or are dead.

load ../lib/space

setup_file() { space_setup_file; }
teardown_file() { space_teardown_file; }

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

say() { space-exec "$1" sh -c 'printf "%b" "$1" >/dev/console' sh "$2"; }

@test "what the guest prints on its console" {
	id=$(new_sandbox)
	say "$id" 'one line\n'
	wait_console "$id" 'one line'
	run -0 space-log "$id"
	assert_match 'one line' "$output"
	space-rm -w "$id" >/dev/null
}

@test "-f follows, by events" {
	id=$(new_sandbox)
	space-log -f "$id" >out 3>&- &
	pid=$!
	for n in 1 2 3; do
		say "$id" "line $n\n"
		wait_file out "line $n"
	done
	kill $pid
	wait $pid || true
	space-rm -w "$id" >/dev/null
}

@test "of a paused sandbox and after it was resumed" {
	id=$(new_sandbox)
	say "$id" 'before\n'
	wait_console "$id" before
	space-pause -w "$id" >/dev/null
	assert_match before "$(space-log "$id")"
	space-resume -w "$id" >/dev/null
	say "$id" 'after\n'
	wait_console "$id" after
	run -0 space-log "$id"
	assert_match 'before.*after' "${output//$'\n'/ }"
	space-rm -w "$id" >/dev/null
}

@test "of a dead one" {
	id=$(new_sandbox)
	say "$id" 'last words\n'
	wait_console "$id" 'last words'
	read -r pid _ <"$SPACE_RUN/$id/life"
	kill -KILL "$pid"
	wait_pid "$pid"
	assert_match 'last words' "$(space-log "$id")"
	space-rm -w "$id" >/dev/null
}

@test "bytes as they are in a pipe, escaped on a terminal" {
	id=$(new_sandbox)
	say "$id" '\033[2Jclear\n'
	wait_console "$id" clear
	space-log "$id" | grep -q "$(printf '\033')\[2Jclear"
	script -qefc "space-log $id" out </dev/null >/dev/null
	grep -qF '\x1b[2Jclear' out
	run -1 grep -q "$(printf '\033')" out
	space-rm -w "$id" >/dev/null
}

@test "a reader that leaves ends it" {
	id=$(new_sandbox)
	say "$id" 'x\n'
	timeout 20 bash -c "space-log -f $id | head -n 1" >/dev/null
	space-rm -w "$id" >/dev/null
}

@test "no such sandbox, wrong use" {
	assert_fails 3 nosuch space-log nosuch
	assert_fails 2 operand space-log
}
