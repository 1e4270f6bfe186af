#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# space-import: from folders, tars, layouts, docker archives and registries; what is refused, and
# that nothing of a failed one stays. Disks are looked at with e2fsprogs, without mounting.

load ../lib/space

setup_file() {
	space_setup_file
	export W=$SPACE_ROOT/import
	mkdir -p "$W"
	make_layout
	registry_start open
	skopeo copy -q --dest-tls-verify=false "oci:$W/oci:two" "docker://$(reg open)/team/app:1"
	skopeo copy -q --dest-tls-verify=false -f v2s2 "oci:$W/oci:two" "docker://$(reg open)/team/app:s2"
}
teardown_file() {
	local pid

	for pid in "$W"/*.pid; do
		[ ! -e "$pid" ] || kill "$(cat "$pid")" || true
	done
	space_teardown_file
}

# --- an image of two layers, made with another tool ---------------------------------------------

make_layout() {
	local r=$W/one/rootfs

	umoci init --layout "$W/oci"
	umoci new --image "$W/oci:one"
	umoci unpack --image "$W/oci:one" "$W/one"
	"$SPACE_TOP/tests/lib/box" "$r"
	mkdir -p "$r/low/sub" "$r/gone" "$r/turns"
	echo 1 >"$r/low/sub/f" && echo 1 >"$r/gone/f" && echo 1 >"$r/turns/f"
	ln "$r/low/sub/f" "$r/low/hard"
	mknod "$r/dev/null" c 1 3
	chown 1000:1000 "$r/low/sub" && chmod 2750 "$r/low/sub"
	chmod 4755 "$r/bin/busybox"
	umoci repack --image "$W/oci:one" "$W/one"
	umoci unpack --image "$W/oci:one" "$W/two"
	r=$W/two/rootfs
	rm -r "$r/gone" "$r/turns" "$r/low/sub/f"
	echo 2 >"$r/turns" && echo 2 >"$r/low/new"
	umoci repack --image "$W/oci:two" "$W/two"
	umoci config --image "$W/oci:two" --config.env 'GREETING=hello world' --config.user dev \
		--config.workingdir /var/log --config.exposedports 8080/tcp --config.cmd sh
}

# The disk of an image.
disk() {
	echo "$SPACE_STATE/store/checkpoints/$1/rootfs.img"
}

# What is on it: path, type and permissions (the special bits aside, which debugfs drops when it
# unpacks), owners, size, links' targets.
listing() {
	local d

	d=$(mktemp -d "$BATS_TEST_TMPDIR/rdump.XXXXXX")
	debugfs -R "rdump / $d" "$(disk "$1")" 2>/dev/null
	(cd "$d" && tree_of .)
}
tree_of() {
	(cd "$1" && find . -mindepth 1 ! -path './lost+found*' \( -type f -o -type d -o -type l \) \
		! -path ./etc/mtab -printf '%p %y %m %U %G %l %s\n' | sed -E \
		-e 's/^(.* [fdl]) [0-9]([0-7]{3}) /\1 \2 /' -e 's/^(.* d .*) [0-9]+$/\1/' | sort)
}

assert_clean() {
	e2fsck -fn "$(disk "$1")"
}

# The image is the layout's second one, as the other tool unpacks it.
assert_is_two() {
	assert_clean "$1"
	assert_same "$(tree_of "$W/two/rootfs")" "$(listing "$1")" 'the files'
	assert_same 2 "$(debugfs -R 'cat turns' "$(disk "$1")" 2>/dev/null)"
}

imported() {
	assert_code 0 space-import --no-warm "$@"
	# shellcheck disable=SC2154
	[[ $output =~ ^c[a-z0-9]{20}$ ]]
	ID=$output
}

# --- registries ---------------------------------------------------------------------------------

# registry_start NAME [EXTRA-CONFIG]: on the storage that all share; its port in $W/NAME.port.
registry_start() {
	local line

	cat >"$W/$1.yml" <<-END
		version: 0.1
		storage: {filesystem: {rootdirectory: $W/registry}}
		http: {addr: "127.0.0.1:0"$3}
		$2
	END
	docker-registry serve "$W/$1.yml" >"$W/$1.log" 2>&1 3>&- &
	echo $! >"$W/$1.pid"
	line=$(wait_file "$W/$1.log" 'listening on 127.0.0.1:[0-9]+' 20)
	[[ $line =~ 127\.0\.0\.1:([0-9]+) ]]
	echo "${BASH_REMATCH[1]}" >"$W/$1.port"
}
reg() {
	echo "127.0.0.1:$(cat "$W/$1.port")"
}

# auth_file HOST:PORT USER:PASSWORD
auth_file() {
	printf '{"auths":{"%s":{"auth":"%s"}}}' "$1" "$(printf %s "$2" | base64)" >"$W/auth.json"
	echo "$W/auth.json"
}

@test "a root folder" {
	imported plain "$W/two/rootfs"
	assert_is_two "$ID"
	assert_match 'character special' "$(debugfs -R 'stat dev/null' "$(disk "$ID")" 2>/dev/null)"
	assert_match 'Links: 1' "$(debugfs -R 'stat low/hard' "$(disk "$ID")" 2>/dev/null)"
	space-rm -w plain
}

@test "a tar: a file, standard input, compressed" {
	tar -C "$W/two/rootfs" -cf "$W/root.tar" .
	imported plain "$W/root.tar"
	assert_is_two "$ID"
	for c in gzip bzip2 xz zstd; do
		$c -c "$W/root.tar" >"$W/root.tar.$c"
		imported plain "$W/root.tar.$c"
		assert_is_two "$ID"
	done
	assert_code 0 sh -c "zstd -c '$W/root.tar' | space-import --no-warm plain -"
	assert_is_two "$output"
	# Every image before has lost its name, and stays until it is removed.
	space-ls images | cut -f1,2 | awk -F '\t' '$2 != "box" { print $1 }' | space-rm -w -
}

@test "an image layout: layers, whiteouts, digest; as a folder and as a tar" {
	imported app "$W/oci:two"
	assert_is_two "$ID"
	want=$(skopeo inspect --raw "oci:$W/oci:two" | sha256sum | cut -d' ' -f1)
	assert_same "sha256:$want" "$(json_get digest <"$SPACE_STATE/store/checkpoints/$ID/meta.json")"
	imported app "oci:$W/oci:one"
	assert_same "$(tree_of "$W/one/rootfs")" "$(listing "$ID")"
	tar -C "$W/oci" -cf "$W/oci.tar" .
	imported app "$W/oci.tar:two"
	assert_is_two "$ID"
	assert_fails 2 'several images' space-import --no-warm app "$W/oci"
	assert_fails 3 "'three'" space-import --no-warm app "$W/oci:three"
	space-ls images | cut -f1,2 | awk -F '\t' '$2 != "box" { print $1 }' | space-rm -w -
}

@test "a docker archive: a file, standard input, unpacked" {
	skopeo copy -q "oci:$W/oci:two" "docker-archive:$W/docker.tar:team/app:1"
	imported app "$W/docker.tar"
	assert_is_two "$ID"
	imported app "docker-archive:$W/docker.tar:team/app:1"
	assert_is_two "$ID"
	assert_code 0 sh -c "gzip -c '$W/docker.tar' | space-import --no-warm app -"
	assert_is_two "$output"
	mkdir "$W/docker" && tar -C "$W/docker" -xf "$W/docker.tar"
	imported app "$W/docker"
	assert_is_two "$ID"
	space-ls images | cut -f1,2 | awk -F '\t' '$2 != "box" { print $1 }' | space-rm -w -
}

@test "a registry: by tag and digest, both kinds of manifest" {
	imported app "docker://$(reg open)/team/app:1"
	assert_is_two "$ID"
	digest=$(json_get digest <"$SPACE_STATE/store/checkpoints/$ID/meta.json")
	imported app "docker://$(reg open)/team/app@$digest"
	assert_is_two "$ID"
	imported app "docker://$(reg open)/team/app:s2"
	assert_is_two "$ID"
	assert_fails 3 'no manifests/2' space-import --no-warm app "docker://$(reg open)/team/app:2"
	assert_fails 3 'no manifests/latest' space-import --no-warm app "docker://$(reg open)/none"
	assert_fails 2 'reference' space-import --no-warm app "docker://$(reg open)/Team"
	assert_fails 5 'onnect' space-import --no-warm app docker://127.0.0.1:1/x
	space-ls images | cut -f1,2 | awk -F '\t' '$2 != "box" { print $1 }' | space-rm -w -
}

@test "a registry that holds other bytes than it says" {
	blob=$(find "$W/registry" -name data -size +100k | head -n 1)
	cp "$blob" "$W/blob"
	printf 'X' | dd of="$blob" bs=1 seek=5000 conv=notrunc status=none
	assert_fails 1 'layer sha256:' space-import --no-warm app "docker://$(reg open)/team/app:1"
	truncate -s 5000 "$blob"
	assert_fails 1 'layer sha256:' space-import --no-warm app "docker://$(reg open)/team/app:1"
	cp "$W/blob" "$blob"
	imported app "docker://$(reg open)/team/app:1"
	space-rm -w app
}

@test "a registry with passwords" {
	# shellcheck disable=SC2016 # bcrypt, with a salt of our own
	perl -e 'print "joe:", crypt("s3cret", q($2y$05$abcdefghijklmnopqrstuu)), "\n"' >"$W/htpasswd"
	registry_start basic "auth: {htpasswd: {realm: r, path: $W/htpasswd}}"
	src=docker://$(reg basic)/team/app:1
	assert_fails 6 'auth-file' space-import --no-warm app "$src"
	assert_fails 6 '401' space-import --no-warm --auth-file "$(auth_file "$(reg basic)" joe:no)" app "$src"
	assert_fails 6 '401' space-import --no-warm --auth-file "$(auth_file "$(reg open)" joe:s3cret)" app "$src"
	assert_fails 3 'no-such-file' space-import --no-warm --auth-file "$W/no-such-file" app "$src"
	imported --auth-file "$(auth_file "$(reg basic)" joe:s3cret)" app "$src"
	assert_is_two "$ID"
	# The password went into no record.
	! grep -rqsF -e s3cret -e "$(printf joe:s3cret | base64)" "$SPACE_STATE/store/ops" \
		"$SPACE_STATE/store/checkpoints/$ID/meta.json" "$SPACE_STATE/store/events" || false
	space-rm -w app
}

@test "a registry with TLS and tokens" {
	openssl req -x509 -newkey rsa:2048 -nodes -keyout "$W/key.pem" -out "$W/cert.pem" -days 2 \
		-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 2>/dev/null
	"$SPACE_TOP/tests/fixtures/token-realm.py" "$W/cert.pem" "$W/key.pem" "$W/realm.log" 3>&- &
	echo $! >"$W/realm.pid"
	line=$(wait_file "$W/realm.log" 'listening at [0-9]+' 20)
	registry_start token "auth: {token: {realm: \"https://127.0.0.1:${line##* }/token\", service: svc,
		issuer: test, rootcertbundle: $W/cert.pem}}" \
		", tls: {certificate: $W/cert.pem, key: $W/key.pem}"
	src=docker+https://$(reg token)/team/app:1
	auth=$(auth_file "$(reg token)" joe:s3cret)
	assert_fails 1 'certificate' space-import --no-warm --auth-file "$auth" app "$src"
	assert_same 1 "$(wc -l <"$W/realm.log")" 'what the realm was asked, by one whom nobody trusts'
	export SSL_CERT_FILE=$W/cert.pem
	assert_fails 6 'auth-file' space-import --no-warm app "$src"
	assert_same none "$(tail -n 1 "$W/realm.log" | cut -d' ' -f3)"
	imported --auth-file "$auth" app "$src"
	assert_is_two "$ID"
	assert_match 'scope=repository%3Ateam%2Fapp%3Apull good' "$(tail -n 1 "$W/realm.log")"
	# The same, asked for without TLS: the registry does not speak it, and is told nothing.
	assert_fails 1 '400' space-import --no-warm --auth-file "$auth" app "docker://$(reg token)/team/app:1"
	space-rm -w app
}

@test "what an image says about running it is used" {
	imported app "$W/oci:two"
	id=$(space-create -w app)
	# shellcheck disable=SC2016 # the guest's shell expands
	assert_same 'hello world' "$(space-exec "$id" sh -c 'echo "$GREETING"')"
	# shellcheck disable=SC2016
	assert_same 'dev /var/log' "$(space-exec "$id" sh -c 'echo "$(id -un) $PWD"')"
	assert_same 2 "$(space-exec "$id" cat /turns)"
	assert_same '4755 0' "$(space-exec "$id" stat -c '%a %u' /bin/busybox)"
	space-rm -w "$id" app >/dev/null
}

@test "a name moves to the new image; the old one goes on for those that use it" {
	imported app "$W/oci:one"
	old=$ID
	imported app "$W/oci:two"
	assert_same "$ID" "$(space-ls images | awk -F '\t' '$2 == "app" { print $1 }')"
	assert_match "$old" "$(space-ls images | cut -f1 | tr '\n' ' ')"
	space-rm -w app "$old" >/dev/null
}

@test "the size of the disk" {
	imported --size 100M app "$W/root.tar"
	assert_same $((100 << 20)) "$(stat -c %s "$(disk "$ID")")"
	assert_clean "$ID"
	space-rm -w app
	imported app "$W/root.tar"
	size=$(stat -c %s "$(disk "$ID")")
	[ "$size" -gt $((1 << 30)) ] && [ "$size" -lt $((1100 << 20)) ] && [ $((size % (1 << 20))) -eq 0 ]
	# Sparse, and its inode tables are known to be zero: a guest has nothing to fill in.
	[ "$(du -k "$(disk "$ID")" | cut -f1)" -lt 20000 ]
	dumpe2fs "$(disk "$ID")" 2>/dev/null >"$BATS_TEST_TMPDIR/dump"
	assert_same "$(grep -c '^Group [0-9]' "$BATS_TEST_TMPDIR/dump")" \
		"$(grep -c ITABLE_ZEROED "$BATS_TEST_TMPDIR/dump")"
	assert_match 'Reserved block count: *0' "$(cat "$BATS_TEST_TMPDIR/dump")"
	space-rm -w app
	head -c 90000000 /dev/urandom >"$W/big"
	tar -C "$W" -cf "$W/big.tar" big
	assert_fails 1 'does not fit in a disk of 64 MiB' space-import --no-warm --size 64M app "$W/big.tar"
	for bad in 0 1 63M 17T 1x -5; do
		assert_fails 2 '' space-import --no-warm "--size=$bad" app "$W/root.tar"
	done
}

@test "archives that mean harm are refused, and nothing of them stays" {
	before=$(cd "$SPACE_STATE/store" && find checkpoints names -mindepth 1 | sort)
	(cd "$W" && echo x >evil && tar -Pcf dotdot.tar --transform 's,^,../../../tmp/space-,' evil)
	assert_fails 1 "'..'" space-import --no-warm app "$W/dotdot.tar"
	[ ! -e /tmp/space-evil ]
	python3 - "$W" <<-'END'
		import io, sys, tarfile
		def make(name, *entries):
		    with tarfile.open(sys.argv[1] + "/" + name, "w") as t:
		        for n, kind, more in entries:
		            i = tarfile.TarInfo(n)
		            i.type = kind
		            if kind == tarfile.REGTYPE:
		                i.size = len(more)
		                t.addfile(i, io.BytesIO(more))
		            else:
		                i.linkname = more
		                t.addfile(i)
		F, L, H = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
		make("h-hard.tar", ("a", H, "/etc/shadow"))
		make("h-up.tar", ("a", H, "../../etc/shadow"))
		make("h-below.tar", ("a", F, b"1"), ("a/b", F, b"1"))
		make("h-loop.tar", ("a", L, "b"), ("b", L, "a"), ("a/x", F, b"1"))
		make("h-long.tar", ("n" * 300, F, b"1"))
		make("h-deep.tar", ("d/" * 600 + "f", F, b"1"))
		make("ok-link.tar", ("etc", L, "/etc"), ("out", L, "/"), ("out/tmp/space-evil2", F, b"1"))
	END
	for f in "$W"/h-*.tar; do
		assert_fails 1 "entry" space-import --no-warm app "$f" ||
			assert_fails 1 "hard link" space-import --no-warm app "$f"
	done
	assert_fails 1 'no tar' space-import --no-warm app /etc/passwd
	assert_fails 1 'empty' space-import --no-warm app /dev/null
	head -c 100000 "$W/root.tar" >"$W/cut.tar"
	assert_fails 1 'Truncated' space-import --no-warm app "$W/cut.tar"
	assert_same "$before" "$(cd "$SPACE_STATE/store" && find checkpoints names -mindepth 1 | sort)"
	# Links out of the image lead around in it.
	imported app "$W/ok-link.tar"
	[ ! -e /tmp/space-evil2 ]
	assert_same 1 "$(debugfs -R 'cat tmp/space-evil2' "$(disk "$ID")" 2>/dev/null)"
	space-rm -w app
}

@test "sources that are none" {
	assert_fails 3 'nowhere' space-import --no-warm app "$W/nowhere"
	assert_fails 3 'nowhere' space-import --no-warm app "oci:$W/nowhere:x"
	assert_fails 2 'no folder' space-import --no-warm app "dir:$W/root.tar"
	assert_fails 2 'is a folder' space-import --no-warm app "tar:$W/oci"
	assert_fails 2 'wants a name' space-import app
	assert_fails 2 'wants a name' space-import app a b
	assert_fails 2 '' space-import "App" "$W/root.tar"
	assert_fails 4 'taken' space-import "$(name_of_a_sandbox)" "$W/root.tar"
	space-rm -w taken-name
}
name_of_a_sandbox() {
	new_sandbox --name taken-name >/dev/null
	echo taken-name
}

@test "progress is shown on a terminal, and there alone" {
	assert_code 0 space-import --no-warm app "$W/root.tar"
	# shellcheck disable=SC2154 # run sets it
	assert_same '' "$stderr"
	out=$(script -qec "space-import --no-warm app '$W/root.tar'" /dev/null 3>&-)
	assert_match 'checking' "$out"
	assert_match 'c[a-z0-9]{20}' "$out"
	space-ls images | cut -f1,2 | awk -F '\t' '$2 != "box" { print $1 }' | space-rm -w -
}

@test "killed in the middle it leaves no process, and the next tool takes its remains away" {
	mkfifo "$W/fifo"
	space-import --no-warm app - <"$W/fifo" >/dev/null 2>&1 3>&- &
	pid=$!
	exec 5>"$W/fifo"
	head -c 1500000 "$W/root.tar" >&5
	timeout 20 sh -c "until ls '$SPACE_STATE'/store/checkpoints/.new-* >/dev/null 2>&1; do :; done"
	kids=$(pgrep -P "$pid" || true)
	kill -KILL "$pid"
	wait "$pid" || true
	for k in $kids; do wait_pid "$k" 10; done
	exec 5>&-
	imported app "$W/root.tar"
	run -0 find "$SPACE_STATE/store/checkpoints" -name '.new-*'
	assert_same '' "$output"
	space-rm -w app
}
