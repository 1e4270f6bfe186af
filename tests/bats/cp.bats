# SPDX-License-Identifier: Apache-2.0
# space-cp: into a sandbox and out of it. What a hostile guest can send is in the unit tests; here
# are the ways of naming things, and a guest that tries what a guest can.

load ../lib/space

setup_file() {
	space_setup_file
	BOX=$(new_sandbox --name copybox)
	export BOX
}
teardown_file() { space_teardown_file; }

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

# A tree with what trees have; its owner is whoever makes it.
make_tree() {
	mkdir -p "$1/sub/deep" "$1/empty"
	echo one >"$1/one"
	head -c 300000 /dev/urandom >"$1/sub/big"
	: >"$1/sub/none"
	ln -s ../one "$1/sub/link"
	ln -s /nowhere "$1/dangling"
	chmod 640 "$1/one"
	chmod 750 "$1/sub"
	touch -d '2001-02-03 04:05:06' "$1/one" "$1/sub/deep"
}
list() { (cd "$1" && find . -printf '%p %y %m %T@ %l\n' | sort && find . -type f | sort | xargs sha256sum); }

@test "a tree in and out again is the same" {
	make_tree tree
	space-cp tree "$BOX":/root/tree
	assert_same '640 2001' "$(space-exec "$BOX" sh -c 'stat -c "%a %y" /root/tree/one | cut -c1-8')"
	space-cp copybox:/root/tree back
	diff <(list tree) <(list back)
}

@test "into a folder that exists it goes beneath, elsewhere it takes the name" {
	make_tree tree
	space-cp tree "$BOX":/tmp
	space-exec "$BOX" test -f /tmp/tree/sub/big
	space-cp tree/one "$BOX":/tmp/
	space-exec "$BOX" test -f /tmp/one
	space-cp tree/. "$BOX":/tmp/flat
	space-exec "$BOX" test -f /tmp/flat/one
	mkdir dir
	space-cp "$BOX":/tmp/tree dir
	[ -f dir/tree/sub/big ]
	space-cp "$BOX":/tmp/tree/one dir/other
	cmp tree/one dir/other
	space-cp "$BOX":/tmp/tree/. flat
	[ -f flat/one ]
	space-cp "$BOX":/tmp/tree/one .
	cmp tree/one one
}

@test "a stream of one file" {
	head -c 1000000 /dev/urandom >data
	space-cp - "$BOX":/root/stream <data
	space-cp "$BOX":/root/stream - | cmp - data
	printf '#!/bin/sh\necho ran\n' | space-cp - "$BOX":/root/script
	space-exec "$BOX" chmod 755 /root/script
	printf '#!/bin/sh\necho again\n' | space-cp - "$BOX":/root/script
	assert_same again "$(space-exec "$BOX" /root/script)"
	assert_code 4 space-cp "$BOX":/root -
}

@test "--user owns what arrives" {
	make_tree tree
	space-cp --user 1000:1000 tree/one "$BOX":/tmp/owned
	assert_same 1000:1000 "$(space-exec "$BOX" stat -c %u:%g /tmp/owned)"
	space-cp tree/one "$BOX":/tmp/owned2
	assert_same 0:0 "$(space-exec "$BOX" stat -c %u:%g /tmp/owned2)"
}

@test "no owners, setuid bits or devices come out" {
	space-exec "$BOX" sh -c 'mkdir -p /tmp/odd && cd /tmp/odd && echo x >suid && chown 1000:1000 suid &&
		chmod 6755 suid && mknod null c 1 3 && mkfifo fifo && mkdir sgid && chmod 2777 sgid'
	space-cp "$BOX":/tmp/odd odd
	assert_same '755 0:0' "$(stat -c '%a %u:%g' odd/suid)"
	assert_same 777 "$(stat -c %a odd/sgid)"
	assert_same $'sgid\nsuid' "$(ls odd)"
	assert_code 4 space-cp "$BOX":/tmp/odd/null .
}

@test "links are copied, and never followed" {
	mkdir outside target
	echo keep >outside/file
	space-exec "$BOX" sh -c 'mkdir -p /tmp/l/d && cd /tmp/l && echo evil >d/file && ln -s /etc/passwd abs'
	ln -s ../outside target/l
	mkdir target/ok
	assert_fails 4 'make folder' space-cp "$BOX":/tmp/l target
	assert_same keep "$(cat outside/file)"
	rm target/l
	space-cp "$BOX":/tmp/l target
	assert_same /etc/passwd "$(readlink target/l/abs)"
	ln -s ../outside target/l/e
	space-exec "$BOX" sh -c 'mkdir /tmp/l/e && echo evil >/tmp/l/e/file'
	assert_fails 4 'not whole' space-cp "$BOX":/tmp/l target
	assert_same keep "$(cat outside/file)"
	ln -s ../../outside/file target/file
	space-cp "$BOX":/tmp/l/d/file target/file
	assert_same keep "$(cat outside/file)"
	assert_same evil "$(cat target/file)"
}

@test "caps: too many bytes, too many entries" {
	space-exec "$BOX" sh -c 'mkdir -p /tmp/many && cd /tmp/many && for i in 1 2 3 4 5 6 7 8 9; do
		head -c 1000 /dev/zero >$i; done'
	assert_fails 6 'too many entries' space-cp --max-entries 9 "$BOX":/tmp/many few
	space-cp --max-entries 10 "$BOX":/tmp/many all
	assert_fails 6 'too many bytes' space-cp --max-bytes 8999 "$BOX":/tmp/many less
	space-cp --max-bytes 9000 "$BOX":/tmp/many more
	assert_fails 6 'bytes' space-cp --max-bytes 1M "$BOX":/dev/zero -
	[ "$(find . -name '.space-cp-*' | wc -l)" -eq 0 ]
}

@test "a device or fifo here is neither written nor replaced" {
	mkfifo fifo
	assert_fails 4 'fifo' space-cp "$BOX":/etc/passwd fifo
	[ -p fifo ]
	assert_fails 4 'null' space-cp "$BOX":/etc/passwd /dev/null
	[ -c /dev/null ]
}

@test "what cannot be copied says so in one line" {
	echo x >here
	assert_fails 2 'neither' space-cp here there
	assert_fails 2 'both' space-cp "$BOX":/a "$BOX":/b
	assert_fails 2 'two operands' space-cp here
	assert_fails 3 'nosuch' space-cp nosuch "$BOX":/tmp
	assert_fails 3 '/nosuch' space-cp "$BOX":/nosuch .
	assert_fails 3 'nosuch' space-cp nosuchbox:/etc/passwd .
	assert_fails 3 'nosuch' space-cp here "$BOX":/nosuch/dir
	assert_fails 4 'no folder' space-cp here "$BOX":/tmp/nosuch/
	assert_fails 3 'nosuch' space-cp "$BOX":/etc/passwd nosuch/dir
	assert_fails 4 'folder' space-cp "$BOX":/etc/passwd nosuch/
	[ ! -e nosuch ]
	space-pause -w "$BOX" >/dev/null
	assert_fails 4 'paused' space-cp here "$BOX":/tmp
	space-resume -w "$BOX" >/dev/null
}

@test "a disk that fills up in the guest: failed, and nothing half-made in place" {
	id=$(new_sandbox)
	space-exec "$id" sh -c 'mkdir /small && mount -t tmpfs -o size=1m none /small'
	head -c 3000000 /dev/zero >big
	assert_code 5 space-cp big "$id":/small/big
	assert_same '' "$(space-exec "$id" ls -A /small)"
	space-rm -w "$id" >/dev/null
}

@test "100 MB each way" {
	head -c 100000000 /dev/urandom >data
	begun=$(date +%s%N)
	space-cp data "$BOX":/root/data
	mid=$(date +%s%N)
	space-cp "$BOX":/root/data back
	end=$(date +%s%N)
	cmp data back
	echo "# 100 MB in at $((100000000000 / (mid - begun))) MB/s, out at $((100000000000 / (end - mid))) MB/s" >&3
	space-exec "$BOX" rm /root/data
}
