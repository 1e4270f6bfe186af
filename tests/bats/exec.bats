# SPDX-License-Identifier: Apache-2.0
# Processes in a sandbox: space-exec, space-ps, space-attach, space-kill.

load ../lib/space

setup_file() {
	space_setup_file
	BOX=$(new_sandbox --env FROM=sandbox --env BOTH=sandbox)
	export BOX
}
teardown_file() { space_teardown_file; }

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

@test "standard output and standard error stay apart" {
	run -0 --separate-stderr space-exec "$BOX" sh -c 'echo out; echo err >&2'
	assert_same out "$output"
	assert_same err "$stderr"
}

@test "standard input is given with -i and is at its end without" {
	assert_same hello "$(echo hello | space-exec -i "$BOX" cat)"
	assert_same '' "$(echo hello | space-exec "$BOX" cat)"
	# What was not asked for stays for the next program.
	assert_same 'next' "$({
		space-exec "$BOX" true
		cat
	} <<<next)"
}

@test "arguments arrive as they are" {
	run -0 space-exec "$BOX" printf '[%s]' 'a b' '' '-i' '--' '*' "it's" $'tab\there'
	assert_same "[a b][][-i][--][*][it's][$(printf 'tab\there')]" "$output"
}

@test "variables: the image's, over them the sandbox's, over them ours" {
	run -0 space-exec --env BOTH=ours --env 'MINE=a=b c' "$BOX" \
		sh -c 'echo "$FROM $BOTH $MINE"'
	assert_same 'sandbox ours a=b c' "$output"
	assert_code 125 space-exec --env NOEQUALS "$BOX" true
	assert_code 125 space-exec --env '1A=x' "$BOX" true
}

@test "user and folder" {
	assert_same '1000 1000' "$(space-exec --user 1000:1000 "$BOX" sh -c 'echo $(id -u) $(id -g)')"
	assert_same /tmp "$(space-exec --cwd /tmp "$BOX" pwd)"
	assert_code 126 space-exec --cwd /no/such "$BOX" true
	assert_code 126 space-exec --user nobodyofthatname "$BOX" true
}

@test "--status-fd tells what the exit status cannot" {
	assert_code 137 space-exec --status-fd 5 "$BOX" sh -c 'exit 137' 5>how
	assert_same '{"exited":137}' "$(cat how)"
	assert_code 137 space-exec --status-fd 5 "$BOX" sh -c 'kill -KILL $$' 5>how
	assert_same '{"signalled":9}' "$(cat how)"
	assert_code 125 space-exec --status-fd 5 "$BOX" sh -c 'exit 125' 5>how
	assert_same '{"exited":125}' "$(cat how)"
	assert_code 125 space-exec --status-fd 5 nosuchsandbox true 5>how
	assert_match '^\{"error":\{"code":"absent","exit":3,"message":"' "$(cat how)"
	assert_fails 125 'not open' space-exec --status-fd 77 "$BOX" true
}

@test "our own failures are 125 and one line" {
	assert_fails 125 'sandbox' space-exec
	assert_fails 125 'nosuchsandbox' space-exec nosuchsandbox true
	assert_fails 125 '../x' space-exec ../x true
	assert_fails 125 'not a sandbox' space-exec box true
	assert_fails 125 'option' space-exec --nosuch "$BOX" true
	assert_fails 125 'command' space-exec "$BOX" "$(head -c 100000 /dev/zero | tr '\0' x)"
	space-pause -w "$BOX" >/dev/null
	assert_fails 125 'paused' space-exec "$BOX" true
	space-resume -w "$BOX" >/dev/null
	assert_code 0 space-exec "$BOX" true
}

@test "a reader that leaves ends the process as a pipe would" {
	space-exec "$BOX" sh -c 'echo $$ >/tmp/pid; exec yes' | head -n 1
	space-exec "$BOX" sh -c 'while [ -d /proc/$(cat /tmp/pid) ]; do sleep 0.05; done'
}

@test "detached: listed, attached to, killed" {
	p=$(space-exec -d "$BOX" sh -c 'echo early; while [ ! -e /tmp/go ]; do sleep 0.05; done
		echo late; exit 6')
	assert_match '^p[a-z0-9]{20}$' "$p"
	run -0 space-ps "$BOX"
	assert_match "$p"$'\t[0-9]+\trunning\t-\t' "$output"
	run -0 space-ps --json "$BOX"
	assert_match "\"id\":\"$p\"" "$output"
	space-attach "$BOX" "$p" >out 3>&- &
	pid=$!
	wait_file out early
	space-exec "$BOX" touch /tmp/go
	rc=0
	wait $pid || rc=$?
	assert_same 6 $rc
	assert_same $'early\nlate' "$(cat out)"

	p=$(space-exec -d "$BOX" sleep 1000)
	assert_same "$p" "$(space-kill -s KILL "$BOX" "$p")"
	assert_code 137 space-attach "$BOX" "$p"
	for s in TERM SIGTERM 15; do
		p=$(space-exec -d "$BOX" sleep 1000)
		space-kill -s $s "$BOX" "$p"
		assert_code 143 space-attach "$BOX" "$p"
	done
	assert_code 3 space-kill "$BOX" p00000000000000000000
	assert_code 3 space-kill "$BOX" nosuch
	assert_code 2 space-kill -s NOSUCH "$BOX" p00000000000000000000
	assert_code 125 space-attach "$BOX" p00000000000000000000
}

@test "attached from now on: nothing old" {
	p=$(space-exec -d "$BOX" sh -c 'echo early; while [ ! -e /tmp/go2 ]; do sleep 0.05; done
		echo late')
	space-attach "$BOX" "$p" >out1 2>err1 3>&- &
	first=$!
	wait_file out1 early
	space-attach --from-now "$BOX" "$p" >out2 3>&- &
	second=$!
	# The one that attaches last has it: when the first is told, the second is there.
	wait $first || true
	space-exec "$BOX" touch /tmp/go2
	wait $second
	assert_same late "$(cat out2)"
}

@test "two attach: the later one has it" {
	p=$(space-exec -d "$BOX" sh -c 'echo one; while [ ! -e /tmp/go3 ]; do sleep 0.05; done')
	space-attach "$BOX" "$p" >out1 2>err1 3>&- &
	first=$!
	wait_file out1 one
	space-attach "$BOX" "$p" >out2 3>&- &
	second=$!
	rc=0
	wait $first || rc=$?
	assert_same 125 $rc
	assert_match 'elsewhere' "$(cat err1)"
	space-exec "$BOX" touch /tmp/go3
	wait $second
	assert_same one "$(cat out2)"
}

@test "a process outlives its client" {
	space-exec "$BOX" sh -c 'echo $$; while [ ! -e /tmp/go4 ]; do sleep 0.05; done
		echo done >/tmp/done4' >out 3>&- &
	pid=$!
	wait_file out '^[0-9]'
	kill -KILL $pid
	space-exec "$BOX" sh -c 'touch /tmp/go4; until [ -e /tmp/done4 ]; do sleep 0.05; done'
}

@test "input and output go on across a pause in the middle" {
	id=$(new_sandbox)
	head -c 20000000 /dev/urandom >data
	mkfifo in
	space-exec -i "$id" cat <in >back 3>&- &
	pid=$!
	exec 6>in
	head -c 5000000 data >&6
	space-pause -w "$id" >/dev/null
	{ tail -c +5000001 data | head -c 5000000 >&6; } 3>&- &
	writer=$!
	space-resume -w "$id" >/dev/null
	wait $writer
	space-pause -w "$id" >/dev/null
	space-resume -w "$id" >/dev/null
	tail -c +10000001 data >&6
	exec 6>&-
	wait $pid
	cmp data back
	space-rm -w "$id" >/dev/null
}

@test "a sandbox that goes away while its client waits" {
	id=$(new_sandbox)
	space-exec "$id" sh -c 'echo begun; sleep 1000' >out 2>err 3>&- &
	pid=$!
	wait_file out begun
	space-pause -w "$id" >/dev/null
	space-rm -w "$id" >/dev/null
	rc=0
	wait $pid || rc=$?
	assert_same 125 $rc
	assert_match "removed" "$(cat err)"
	assert_same 1 "$(wc -l <err)" 'one line'
}

@test "a client that waits for a paused sandbox can be interrupted" {
	id=$(new_sandbox)
	env --default-signal=INT space-exec "$id" sh -c 'echo begun; sleep 1000' >out 2>err 3>&- &
	pid=$!
	wait_file out begun
	space-pause -w "$id" >/dev/null
	kill -INT $pid
	rc=0
	wait $pid || rc=$?
	assert_same 125 $rc
	assert_match 'interrupted' "$(cat err)"
	space-rm -w "$id" >/dev/null
}

@test "a branch's processes start detached, with what they wrote" {
	id=$(new_sandbox)
	p=$(space-exec -d "$id" sh -c 'echo before; while :; do sleep 0.05
		[ ! -e /tmp/go ] || { echo after; exit 3; }; done')
	# Not by a signal that it would pass on.
	space-attach "$id" "$p" >out 3>&- &
	pid=$!
	wait_file out before
	kill -KILL $pid
	kid=$(space-branch -w "$id")
	space-exec "$kid" touch /tmp/go
	run -3 space-attach "$kid" "$p"
	assert_same $'before\nafter' "$output"
	assert_match $'\trunning\t' "$(space-ps "$id" | grep "$p")"
	space-rm -w "$id" "$kid" >/dev/null
}

@test "-t gives a terminal and our own is put right again" {
	cat >inside <<END
before=\$(stty -g)
space-exec -it $BOX sh -c 'tty; echo ready; read x; echo "got \$x"; exit 5'
echo "status \$?"
[ "\$before" = "\$(stty -g)" ] && echo same
END
	mkfifo keys
	script -qefc "sh inside" out <keys >/dev/null 3>&- &
	pid=$!
	exec 6>keys
	wait_file out ready
	printf 'hello\r' >&6
	wait $pid
	exec 6>&-
	run -0 cat out
	assert_match '/dev/pts/' "$output"
	assert_match 'got hello' "$output"
	assert_match 'status 5' "$output"
	assert_match 'same' "$output"
}

@test "sixty-four at once, and the one more is told" {
	id=$(new_sandbox)
	mkfifo hold
	for i in $(seq 64); do
		space-exec -i "$id" sh -c 'echo up; cat' <hold >"out$i" 2>&1 3>&- &
	done
	exec 6>hold
	for i in $(seq 64); do wait_file "out$i" up; done
	assert_fails 125 'too many sessions' space-exec "$id" true
	exec 6>&-
	wait
	assert_code 0 space-exec "$id" true
	space-rm -w "$id" >/dev/null
}
