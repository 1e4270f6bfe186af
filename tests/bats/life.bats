# SPDX-License-Identifier: Apache-2.0
# A sandbox's whole life on real guests: what the toolkit promises, end to end.

load ../lib/space

setup_file() { space_setup_file debian; }
teardown_file() { space_teardown_file; }

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

teardown() {
	space_rm_all sandboxes
	own=$(space-ls snapshots | awk -F '\t' '$3 == "snapshot" { print $1 }')
	[ -z "$own" ] || space-rm -w - >/dev/null <<<"$own"
}

# A program that keeps a secret and a count in its memory, and nowhere else; each time it is asked
# it counts one up and answers "secret count".
counter() {
	cat >counter.py <<'END'
import os
secret, n = os.urandom(8).hex(), 0
os.mkfifo('/run/answer')
os.mkfifo('/run/ask')
while True:
    open('/run/ask').read()
    n += 1
    open('/run/answer', 'w').write(f'{secret} {n}\n')
END
	space-cp counter.py "$1":/root/counter.py
	space-exec -d "$1" python3 /root/counter.py >/dev/null
	space-exec "$1" sh -c 'until [ -p /run/ask ]; do sleep 0.05; done'
}
ask() { space-exec "$1" sh -c 'echo >/run/ask; cat /run/answer'; }

# A file system image, as it would be found after a crash at that instant: the journal is replayed,
# and then nothing may be wrong.
check_disk() {
	local copy=$BATS_TEST_TMPDIR/disk

	cp --sparse=always "$1" "$copy"
	e2fsck -fy -E journal_only "$copy" >"$copy.log" 2>&1 || [ $? -le 1 ]
	e2fsck -fn "$copy" >>"$copy.log" 2>&1 || {
		cat "$copy.log" >&2
		return 1
	}
	rm "$copy"
}

@test "one command in one sandbox" {
	id=$(space-create -w debian)
	assert_same 42 "$(space-exec "$id" python3 -c 'print(6*7)')"
}

@test "programs put together by pipes" {
	run -0 bash -o pipefail -c 'space-create debian | space-opwait | xargs -I{} space-exec {} uname -r'
	assert_match '^6\.' "$output"
	run -0 bash -o pipefail -c 'space-create -n 5 debian | space-opwait | space-rm -w -'
	assert_same 5 "${#lines[@]}"
	assert_same 1 "$(space-ls sandboxes | wc -l)" 'only the first one is there'
}

@test "a count in memory goes on through snapshot, branch, pause and resume" {
	id=$(space-create -w debian)
	counter "$id"
	first=$(ask "$id")
	secret=${first% *}
	assert_same "$secret 1" "$first"

	snap=$(space-snap -w "$id")
	assert_same "$secret 2" "$(ask "$id")" 'the source goes on'

	kids=$(space-branch -w -n 3 "$snap")
	assert_same 3 "$(wc -l <<<"$kids")"
	i=0
	for kid in $kids; do
		assert_same "$secret 2" "$(ask "$kid")" 'each child from the same count'
		i=$((i + 1))
		for ((j = 0; j < i; j++)); do ask "$kid" >/dev/null; done
	done
	i=0
	for kid in $kids; do
		i=$((i + 1))
		assert_same "$secret $((3 + i))" "$(ask "$kid")" 'then on its own'
	done

	space-pause -w "$id" >/dev/null
	space-resume -w "$id" >/dev/null
	assert_same "$secret 3" "$(ask "$id")" 'and after a pause'

	kid=$(space-branch -w "$id")
	assert_same "$secret 4" "$(ask "$kid")" 'and in a branch of what was resumed'
	assert_same "$secret 4" "$(ask "$id")"
}

@test "ten times paused and resumed, every file as it was" {
	id=$(new_sandbox)
	cat >churn <<'END'
mkdir -p /data && cd /data || exit 1
r() { od -An -N4 -tu4 /dev/urandom | tr -d ' '; }
for i in 1 2 3 4 5 6 7 8; do
	f=$(($(r) % 40))
	dd if=/dev/urandom of=$f bs=4k count=$(($(r) % 60 + 1)) seek=$(($(r) % 100)) conv=notrunc 2>/dev/null
done
rm -f $(($(r) % 40))
mv $(ls | head -n 1) moved-$1
[ $(($(r) % 2)) = 0 ] && sync
sha256sum *
END
	space-cp churn "$id":/root/churn
	for i in 1 2 3 4 5 6 7 8 9 10; do
		space-exec "$id" sh /root/churn "$i" >before
		[ "$(wc -l <before)" -gt 0 ]
		space-pause -w "$id" >/dev/null
		space-resume -w "$id" >/dev/null
		space-exec "$id" sh -c 'cd /data && sha256sum *' >after
		diff before after
		space-exec "$id" sh -c 'sync; echo 3 >/proc/sys/vm/drop_caches; cd /data && sha256sum *' >disk
		diff before disk
	done
	run -1 space-exec "$id" sh -c 'dmesg | grep -i "ext4-fs error\|I/O error"'
}

@test "two branches are two machines, with the right time" {
	id=$(space-create -w debian)
	space-exec "$id" python3 -c 'import uuid'
	space-branch -w -n 2 "$id" >kids
	cat >who.py <<'END'
import os, socket, uuid
print(socket.gethostname())
print(open('/etc/machine-id').read().strip())
print(os.urandom(16).hex())
print(open('/proc/sys/kernel/random/uuid').read().strip())
print(uuid.uuid4())
END
	for kid in $id $(cat kids); do
		space-exec -i "$kid" python3 - <who.py >"who.$kid"
		assert_same 5 "$(wc -l <"who.$kid")"
		run -0 grep -cv . "who.$kid" || assert_same 0 "$output" 'no empty line'
	done
	assert_same '' "$(cat who.* | sort | uniq -d)" 'nothing is the same in two of them'
	for kid in $(cat kids); do
		before=$(date +%s%N)
		there=$(space-exec "$kid" date +%s%N)
		after=$(date +%s%N)
		if [ "$there" -lt $((before - 1000000000)) ] || [ "$there" -gt $((after + 1000000000)) ]; then
			echo "the clock of $kid: $(((there - before) / 1000000)) ms after the question," \
				"$(((there - after) / 1000000)) ms after the answer"
			false
		fi
	done
}

@test "a paused sandbox has the right time when it comes back" {
	id=$(new_sandbox)
	space-pause -w "$id" >/dev/null
	space-resume -w "$id" >/dev/null
	before=$(date +%s)
	there=$(space-exec "$id" date +%s)
	[ "$there" -ge $((before - 1)) ] && [ "$there" -le $(($(date +%s) + 1)) ]
}

@test "the disk of every checkpoint taken under load is whole, and memory agrees with it" {
	id=$(new_sandbox)
	space-exec -d "$id" sh -c 'mkdir /load; cd /load; i=0; while :; do
		i=$((i + 1)); dd if=/dev/urandom of=f$((i % 20)) bs=4k count=$((i % 50)) 2>/dev/null
		mkdir -p d$((i % 7)); mv f$((i % 20)) d$((i % 7))/ ; rm -rf d$(((i + 3) % 7))
		[ $((i % 5)) = 0 ] && sync; echo $i >count; done' >/dev/null
	space-exec "$id" sh -c 'until [ -s /load/count ]; do sleep 0.05; done'

	snaps=''
	for i in 1 2 3; do snaps="$snaps $(space-snap -w "$id")"; done
	files=$(space-snap -w --files "$id")
	space-pause -w "$id" >/dev/null
	paused=$(sed -n 's/.*"paused": *"\([^"]*\)".*/\1/p' "$SPACE_STATE/store/sandboxes/$id/record.json")
	assert_match '^c' "$paused"
	for c in $snaps $files "$paused"; do
		check_disk "$SPACE_STATE/store/checkpoints/$c/rootfs.img"
	done

	space-resume -w "$id" >/dev/null
	for c in $snaps; do
		kid=$(space-branch -w "$c")
		space-exec "$kid" sh -c 'a=$(cat /load/count); until [ "$(cat /load/count)" != "$a" ]; do
			sleep 0.05; done; sync
			! find /load -type f -exec cat {} + 2>&1 >/dev/null | grep -v "No such file"'
		run -1 space-exec "$kid" sh -c 'dmesg | grep -i "ext4-fs error\|I/O error"'
	done
	space-exec "$id" sh -c 'a=$(cat /load/count); until [ "$(cat /load/count)" != "$a" ]; do
		sleep 0.05; done'
	run -1 space-exec "$id" sh -c 'dmesg | grep -i "ext4-fs error\|I/O error"'
	kid=$(space-branch -w "$files")
	space-exec "$kid" sh -c 'find /load -type f -exec cat {} + >/dev/null'
}

@test "a command that was begun before a pause prints after the resume" {
	id=$(new_sandbox)
	space-exec "$id" sh -c 'echo begun; sleep 1; echo x; exit 9' >out 3>&- &
	pid=$!
	wait_file out begun
	space-pause -w "$id" >/dev/null
	space-resume -w "$id" >/dev/null
	rc=0
	wait $pid || rc=$?
	assert_same 9 $rc
	assert_same "begun
x" "$(cat out)"
}

@test "100 MB each way, whole and as they were" {
	id=$(new_sandbox)
	head -c 100000000 /dev/urandom >data
	begun=$(date +%s%N)
	space-exec -i "$id" cat <data >back
	ms=$((($(date +%s%N) - begun) / 1000000))
	cmp data back
	echo "# 100 MB each way at once: $((100000 / ms)) MB/s" >&3
	printf '\0\n\r\377\033[2J' >odd
	space-exec -i "$id" cat <odd | cmp - odd
}

@test "exit statuses and signals come back" {
	id=$(new_sandbox)
	for n in 0 1 2 42 125 126 127 128 200 255; do
		assert_code "$n" space-exec --status-fd 5 "$id" sh -c "exit $n" 5>how
		assert_same "{\"exited\":$n}" "$(cat how)"
	done
	for s in HUP:1 INT:2 ABRT:6 KILL:9 USR1:10 SEGV:11 TERM:15; do
		assert_code $((128 + ${s#*:})) space-exec --status-fd 5 "$id" sh -c "kill -${s%:*} \$\$" 5>how
		assert_same "{\"signalled\":${s#*:}}" "$(cat how)"
	done
	assert_code 127 space-exec "$id" nosuchprogram
	assert_code 126 space-exec "$id" /etc/passwd
	assert_code 125 space-exec nosuchsandbox true
}

@test "SIGINT and SIGTERM reach the guest" {
	id=$(new_sandbox)
	for s in INT TERM; do
		rm -f out
		# A shell starts what it runs behind itself with SIGINT ignored.
		env --default-signal=INT space-exec "$id" sh -c "trap 'echo got $s; exit 7' $s
			echo ready; while :; do sleep 0.05; done" >out 3>&- &
		pid=$!
		wait_file out ready
		kill -$s $pid
		rc=0
		wait $pid || rc=$?
		assert_same 7 $rc
		assert_match "got $s" "$(cat out)"
	done
}

@test "a terminal has this one's size, also when it changes" {
	id=$(new_sandbox)
	cat >inside <<END
stty rows 20 cols 60; tty >$PWD/tty
exec space-exec -t $id sh -c 'trap "stty size; exit 5" WINCH; stty size; echo ready; while :; do sleep 0.05; done'
END
	script -qefc "sh $PWD/inside" out </dev/null >/dev/null 3>&- &
	pid=$!
	wait_file out ready
	assert_match '20 60' "$(cat out)"
	stty -F "$(cat tty)" rows 33 cols 77
	rc=0
	wait $pid || rc=$?
	assert_same 5 $rc
	assert_match '33 77' "$(cat out)"
}
