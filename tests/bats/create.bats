#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# space-create: names, shapes, environment, identity, request ids.

load ../lib/space

setup_file() { space_setup_file; }
teardown_file() { space_teardown_file; }

@test "a sandbox runs when -w returns, and its id is all that is printed" {
	run --separate-stderr space-create -w box
	assert_same 0 "$status" status
	assert_match '^s[a-z0-9]{20}$' "$output"
	assert_same running "$(space-ls "$output" | cut -f3)"
	assert_same 42 "$(space-exec "$output" sh -c 'echo $((6 * 7))')"
	space-rm -w "$output"
}

@test "without -w an operation id comes at once, and space-opwait has the sandbox" {
	op=$(space-create box)
	assert_match '^o[a-z0-9]{20}$' "$op"
	id=$(space-opwait "$op")
	assert_match '^s[a-z0-9]{20}$' "$id"
	assert_same "$id" "$(space-opwait "$op")" "waiting again"
	space-rm -w "$id"
}

@test "a name stands for the id, is taken once, and is free again after rm" {
	id=$(new_sandbox --name alpha)
	assert_same "$id" "$(space-ls alpha | cut -f1)"
	assert_same alpha "$(space-exec alpha hostname)"
	ops=$(space-ls ops | wc -l)
	assert_fails 4 taken space-create -w --name alpha box
	assert_same "$ops" "$(space-ls ops | wc -l)" "operations after a refusal"
	assert_same "$id" "$(space-rm -w alpha)"
	assert_fails 3 'no such' space-ls alpha
	id=$(new_sandbox --name alpha)
	space-rm -w "$id"
}

@test "-n makes several, numbered behind the name, in one operation" {
	mapfile -t ids < <(new_sandbox -n 3 --name trio)
	assert_same 3 "${#ids[@]}"
	for i in 1 2 3; do
		assert_same "${ids[i - 1]}" "$(space-ls "trio-$i" | cut -f1)"
	done
	assert_fails 4 "'trio-2' is taken" space-create -w --name trio-2 box
	assert_fails 4 "'trio-1' is taken" space-create -w -n 2 --name trio box
	space-rm -w "${ids[@]}" >/dev/null
}

@test "--env reaches commands, --meta the record" {
	id=$(new_sandbox --env GREETING='hello there' --env EMPTY= --meta team=blue --meta n=1)
	assert_same 'hello there' "$(space-exec "$id" sh -c 'echo "$GREETING"')"
	record=$(space-ls --json "$id")
	assert_match '"meta":\{"team":"blue","n":"1"\}' "$record"
	space-rm -w "$id"
}

@test "two sandboxes of one image differ in hostname, machine id and random bytes" {
	mapfile -t ids < <(new_sandbox -n 2)
	for what in hostname 'cat /etc/machine-id' 'head -c 16 /dev/urandom | md5sum'; do
		a=$(space-exec "${ids[0]}" sh -c "$what")
		b=$(space-exec "${ids[1]}" sh -c "$what")
		[ "$a" != "$b" ] || { echo "$what: both say $a"; false; }
	done
	space-rm -w "${ids[@]}" >/dev/null
}

@test "another shape boots cold once, and is warm from then on" {
	warm() { space-ls ops | cut -f2,3 | grep -c "^warm	succeeded"; }
	before=$(warm)
	id=$(new_sandbox --cpus 2 --mem 160M)
	assert_same 2 "$(space-exec "$id" nproc)"
	assert_same $((before + 1)) "$(warm)" "warm-ups"
	two=$(new_sandbox --cpus 2 --mem 160M)
	assert_same $((before + 1)) "$(warm)" "warm-ups after the second"
	space-rm -w "$id" "$two" >/dev/null
}

@test "--disk gives a larger disk, which the guest sees" {
	small=$(new_sandbox)
	kb='df -k / | tail -n 1 | awk "{ print \$2 }"'
	a=$(space-exec "$small" sh -c "$kb")
	disk=$(($(space-ls --json "$small" | json_get disk) + (256 << 20)))
	id=$(new_sandbox --disk $disk)
	b=$(space-exec "$id" sh -c "$kb")
	[ "$b" -gt $((a + 200000)) ] || { echo "$a kB, then $b kB"; false; }
	space-rm -w "$small" "$id" >/dev/null
	assert_fails 2 smaller space-create -w --disk 1M box
}

@test "the same --request-id is the same operation; another request with it is refused" {
	one=$(space-create --request-id r-1 --name req box)
	two=$(space-create --request-id r-1 --name req box)
	assert_same "$one" "$two"
	id=$(space-opwait "$one")
	assert_same "$id" "$(space-create -w --request-id r-1 --name req box)" "long after"
	assert_fails 4 'another request' space-create --request-id r-1 --name other box
	space-rm -w "$id"
}

@test "--require kvm is refused where KVM cannot run a guest" {
	if space-doctor --json | grep -q '"name":"kvm","ok":true,"level":"ok"'; then
		id=$(new_sandbox --require kvm)
		assert_same kvm "$(space-ls "$id" | cut -f8)"
		space-rm -w "$id"
	else
		assert_fails 7 KVM space-create -w --require kvm box
	fi
}

@test "a snapshot or a sandbox is no image" {
	id=$(new_sandbox)
	snap=$(space-snap -w "$id")
	assert_fails 4 'not an image' space-create -w "$snap"
	assert_fails 4 'not an image' space-create -w "$id"
	space-rm -w "$id" "$snap" >/dev/null
}
