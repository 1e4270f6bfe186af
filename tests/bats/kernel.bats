#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# space-kernel: from a package and from files, the same again, hostile input, removal.

load ../lib/space

setup_file() {
	space_setup_file empty
	DEB=$("$SPACE_TOP/tests/lib/kernel")
	KERNEL_TREE=$SPACE_ROOT/tree
	mkdir "$KERNEL_TREE"
	dpkg-deb --fsys-tarfile "$DEB" | tar -x -C "$KERNEL_TREE" --wildcards './boot/vmlinuz*' \
		'./lib/modules/*/modules.builtin' '*/virtio/*' '*/virtio_*.ko' '*/hw_random/*' \
		'*failover.ko' '*/crypto/crc32c-intel.ko'
	VMLINUZ=$(echo "$KERNEL_TREE"/boot/vmlinuz-*)
	VERSION=${VMLINUZ##*/vmlinuz-}
	MODULES=$KERNEL_TREE/lib/modules/$VERSION
	export DEB KERNEL_TREE VMLINUZ VERSION MODULES
}
teardown_file() { space_teardown_file; }

@test "without a store there are no kernels" {
	run --separate-stderr space-kernel ls
	assert_same 0 "$status" status
	assert_same "" "$output"
	assert_fails 3 'nothing here' space-kernel rm "$VERSION"
	[ ! -e "$SPACE_STATE/store" ]
}

@test "a package is added once, however often it is" {
	assert_same "$VERSION" "$(space-kernel add --deb "$DEB")"
	dir=$SPACE_STATE/store/kernels/$VERSION
	cmp "$VMLINUZ" "$dir/vmlinuz"
	first=$(stat -c %i "$dir")
	assert_same "$VERSION" "$(space-kernel add --deb "$DEB")"
	assert_same "$first" "$(stat -c %i "$dir")" "the folder after a second add"
	assert_same "$VERSION" "$(ls -A "$SPACE_STATE/store/kernels")"
	run --separate-stderr space-kernel ls
	assert_same 1 "${#lines[@]}"
	assert_match "^$VERSION	20.*default$" "$output"
}

@test "files of a folder give the same bytes as the package" {
	sum=$(sha256sum <"$SPACE_STATE/store/kernels/$VERSION/initrd")
	space-kernel rm "$VERSION"
	assert_same "" "$(space-kernel ls)"
	json=$(space-kernel --json add --vmlinuz "$VMLINUZ" --modules "$MODULES")
	assert_same "{\"version\":\"$VERSION\"}" "$json"
	assert_same "$sum" "$(sha256sum <"$SPACE_STATE/store/kernels/$VERSION/initrd")"
}

@test "compressed modules end up uncompressed" {
	sum=$(sha256sum <"$SPACE_STATE/store/kernels/$VERSION/initrd")
	cp -r "$MODULES" "$SPACE_ROOT/packed"
	find "$SPACE_ROOT/packed" -name 'virtio_net.ko' -exec xz --check=crc32 {} +
	find "$SPACE_ROOT/packed" -name 'virtio_blk.ko' -exec zstd -q --rm {} +
	space-kernel rm "$VERSION"
	space-kernel add --vmlinuz "$VMLINUZ" --modules "$SPACE_ROOT/packed"
	assert_same "$sum" "$(sha256sum <"$SPACE_STATE/store/kernels/$VERSION/initrd")"
}

@test "the initramfs holds the agent, the modules and their order" {
	cd "$BATS_TEST_TMPDIR"
	busybox cpio -id init 'modules/*' modules.order <"$SPACE_STATE/store/kernels/$VERSION/initrd"
	cmp init "$SPACE_BIN/space-guest"
	while read -r path; do
		[ -s ".$path" ]
	done <modules.order
	grep -qx /modules/virtio_blk.ko modules.order
	assert_same "$(ls modules | wc -l)" "$(wc -l <modules.order)"
	needs=$(grep -nx /modules/virtio_ring.ko modules.order | cut -d: -f1)
	user=$(grep -nx /modules/virtio_blk.ko modules.order | cut -d: -f1)
	[ "$needs" -lt "$user" ]
}

@test "what is no kernel is refused, and nothing is left of it" {
	before=$(find "$SPACE_STATE/store" | sort)
	echo nothing >"$BATS_TEST_TMPDIR/x.deb"
	head -c 1000000 "$DEB" >"$BATS_TEST_TMPDIR/cut.deb"
	assert_fails 1 'not a Debian package' space-kernel add --deb "$BATS_TEST_TMPDIR/x.deb"
	assert_fails 1 'package' space-kernel add --deb "$BATS_TEST_TMPDIR/cut.deb"
	assert_fails 3 'No such file' space-kernel add --deb /nowhere.deb
	assert_fails 2 'not a file' space-kernel add --deb /dev/zero
	assert_fails 2 'not a file' space-kernel add --deb /tmp
	assert_fails 1 'no x86 bzImage' space-kernel add --vmlinuz /bin/sh --modules "$MODULES"
	assert_fails 3 'No such file' space-kernel add --vmlinuz "$VMLINUZ" --modules /nowhere
	mkdir "$BATS_TEST_TMPDIR/empty"
	assert_fails 1 "no module 'virtio_pci'" space-kernel add --vmlinuz "$VMLINUZ" \
		--modules "$BATS_TEST_TMPDIR/empty"
	assert_same "$before" "$(find "$SPACE_STATE/store" | sort)" "the store"
}

@test "wrong use" {
	for args in "" bogus rm "ls x" "add x" "ls --deb $DEB" "add --vmlinuz $VMLINUZ" \
		"add --modules $MODULES" "add --deb $DEB --vmlinuz $VMLINUZ" "add --bogus"; do
		# shellcheck disable=SC2086 # words
		assert_fails 2 '' space-kernel $args
	done
}

@test "names that name nothing" {
	for name in 9.9.9 ../kernels . .. .new-x "" "a b" -x; do
		assert_fails 3 'no such kernel' space-kernel rm -- "$name"
	done
	assert_same "$VERSION" "$(space-kernel ls | cut -f1)"
}

@test "of several removals the others go on, and the worst code comes out" {
	run --separate-stderr space-kernel rm 9.9.9 "$VERSION"
	assert_same 3 "$status" status
	assert_same "$VERSION" "$output"
	assert_same "" "$(space-kernel ls)"
}

@test "a program killed while it adds leaves nothing" {
	for after in 0.05 0.3 1; do
		timeout -s KILL "$after" space-kernel add --deb "$DEB" || true
	done
	left=$(ls -A "$SPACE_STATE/store/kernels")
	[ -z "$left" ] || assert_same "$VERSION" "$left"
	assert_same "$VERSION" "$(space-kernel add --deb "$DEB")"
}
