#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# A VMM that a guest has broken out into: a hostile program stands in QEMU's place, in the real jail
# with the real descriptors, and tells on the machine's console what it could do.

load ../lib/space

setup_file() { space_setup_file; }
teardown_file() { space_teardown_file; }

hashes() { (cd "$SPACE_STATE/store" && find checkpoints -type f -exec sha256sum {} + | sort); }

# Resumes a paused sandbox with the hostile program where QEMU is: in a mount namespace of our own
# /usr/bin is another folder, since the jail binds the folder and no mount in it.
resume_broken_out() {
	local bin=/usr/.space-test-bin.$$

	cp -al /usr/bin "$bin"
	rm "$bin/qemu-system-x86_64"
	cp "$SPACE_TOP/build/fakes/breakout" "$bin/qemu-system-x86_64"
	unshare -m sh -c 'mount --make-rprivate / && mount --bind "$1" /usr/bin && space-resume -w "$2"
		status=$?; umount -l /usr/bin; exit $status' sh "$bin" "$1"
	local status=$?
	rm -rf "$bin"
	return $status
}

@test "a VMM that is broken out of does no harm" {
	local sb other before log

	other=$(new_sandbox)
	sb=$(new_sandbox)
	space-pause -w "$sb"
	before=$(hashes)
	[ -n "$before" ]

	run --separate-stderr resume_broken_out "$sb"
	[ "$status" -ne 0 ]
	# shellcheck disable=SC2154 # bats sets stderr
	[[ $stderr == *"$sb"* ]]
	log=$(space-log "$sb")
	# it ran to its end, and what it may do worked: its own disk is its to write
	grep -q '^end' <<<"$log"
	[ "$(grep -c '^fd .* file .* yes' <<<"$log")" -eq 1 ]
	# no attempt worked but those that are harmless inside
	grep '^yes ' <<<"$log" >&2 || true
	run -1 grep -E '^yes (connect|socket|mount|unshare|setns|ptrace|kill|exec|open-|read-|write-|bpf|io_uring|userfaultfd|perf|keyctl|module|kexec|reboot|shm|iopl|map-page|hostname|clock|raise|pivot|fsopen)' <<<"$log"
	# it sees no file of the host but programs and libraries
	run -1 grep -E '^sees /(home|root|tmp|var|run|etc/passwd|etc/shadow|proc|sys|boot|srv|opt|mnt)' <<<"$log"
	# no checkpoint changed, and the neighbour runs
	[ "$(hashes)" = "$before" ]
	[ "$(space-exec "$other" echo here)" = here ]
	# and the sandbox is as it was paused
	space-resume -w "$sb"
	[ "$(space-exec "$sb" echo back)" = back ]
	space-rm -w "$sb" "$other"
}

@test "its memory file cannot be opened for writing in the jail, though QEMU asks for that" {
	local sb pid vmm

	sb=$(new_sandbox)
	read -r pid _ <"$SPACE_RUN/$sb/life"
	vmm=$(pgrep -P "$pid" -f 'mem-path=/mem')
	# as root, in its mount namespace: the mount is read-only whoever asks
	run ! nsenter -t "$vmm" -m sh -c ': >>/mem'
	nsenter -t "$vmm" -m sh -c ': </mem'
	[ "$(awk '/^Uid/ { print $2 }' "/proc/$vmm/status")" -ge 1900000000 ]
	[ "$(awk '/^CapEff/ { print $2 }' "/proc/$vmm/status")" = 0000000000000000 ]
	[ "$(awk '/^CapBnd/ { print $2 }' "/proc/$vmm/status")" = 0000000000000000 ]
	[ "$(awk '/^Seccomp:/ { print $2 }' "/proc/$vmm/status")" = 2 ]
	[ "$(awk '/^NoNewPrivs/ { print $2 }' "/proc/$vmm/status")" = 1 ]
	space-rm -w "$sb"
}

@test "when the monitor is killed its VMM and its reader die too, and the sandbox can be used" {
	local sb pid kids kid

	sb=$(new_sandbox)
	read -r pid _ <"$SPACE_RUN/$sb/life"
	kids=$(pgrep -P "$pid")
	[ "$(wc -w <<<"$kids")" -eq 2 ]
	kill -9 "$pid"
	for kid in $kids; do
		timeout 10 tail --pid="$kid" -s 0.1 -f /dev/null
	done
	[ "$(space-ls "$sb" | cut -f3)" = dead ]
	space-resume -w "$sb"
	[ "$(space-exec "$sb" echo again)" = again ]
	space-rm -w "$sb"
}

@test "when the VMM is killed the monitor ends and says why, and the sandbox can be removed" {
	local sb pid vmm

	sb=$(new_sandbox)
	read -r pid _ <"$SPACE_RUN/$sb/life"
	vmm=$(pgrep -P "$pid" -f 'mem-path=/mem')
	kill -9 "$vmm"
	timeout 10 tail --pid="$pid" -s 0.1 -f /dev/null
	[ "$(space-ls "$sb" | cut -f3)" = dead ]
	run -125 space-exec "$sb" true
	space-rm -w "$sb"
	run -3 space-ls "$sb"
}
