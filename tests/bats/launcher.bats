# SPDX-License-Identifier: Apache-2.0
# A launcher on SPACE_RUN/launch.sock starts the monitors, as space-launch.socket has systemd do it.

load ../lib/space

setup_file() { space_setup_file; }
teardown_file() { space_teardown_file; }

@test "a monitor that a launcher starts inherits from it alone, and outlives it" {
	systemd-socket-activate --accept --seqpacket --listen="$SPACE_RUN/launch.sock" \
		-E SPACE_STATE -E SPACE_RUN -E FROM=launcher "$SPACE_BIN/space-monitor" \
		</dev/null >"$BATS_TEST_TMPDIR/log" 2>&1 3>&- &
	launcher=$!
	wait_file "$BATS_TEST_TMPDIR/log" Listening

	id=$(FROM=starter new_sandbox)
	read -r pid _ <"$SPACE_RUN/$id/life"
	tr '\0' '\n' <"/proc/$pid/environ" | grep -x FROM=launcher
	assert_same "$launcher" "$(awk '/^PPid:/ { print $2 }' "/proc/$pid/status")"

	kill "$launcher"
	wait "$launcher" || true
	assert_same Linux "$(space-exec "$id" uname -s)"
	# What is left of the socket does not stop the next one.
	other=$(new_sandbox)
	space-rm -w "$id" "$other" >/dev/null
}
