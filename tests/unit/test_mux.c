/* SPDX-License-Identifier: Apache-2.0 */
/* The mux between a scripted guest, often a hostile one, and clients that are plain sockets. */
#include "base/str.h"
#include "mux_rig.h"
#include "sys/clock.h"
#include "tap.h"

static void test_cold(void)
{
	const unsigned char *p, *d;
	struct sp_g_header h;
	struct rig r;
	int64_t age;
	uint32_t n;

	rig_begin(&r);
	rig_connect(&r, true);
	rig_settle(&r);
	rig_pull(&r, &r.guest);
	ok(sp_buf_len(&r.guest.in) == 0, "cold: nothing is sent before the guest's HELLO");
	rig_send(&r, &r.guest, "boot noise", 10);
	rig_send(&r, &r.guest, SP_G_COLD_MARKER, SP_G_MARKER_LEN);
	rig_hello(&r);
	rig_pull(&r, &r.guest);
	ok(memcmp(sp_buf_head(&r.guest.in), SP_G_COLD_MARKER, SP_G_MARKER_LEN) == 0,
	   "cold: the cold marker comes first");
	sp_buf_drop(&r.guest.in, SP_G_MARKER_LEN);
	ok(rig_next(&r, &r.guest, &h, &p) == SP_G_WELCOME && h.chan == 0, "then WELCOME");
	age = sp_clock_real() - (int64_t)sp_fields_num(p, h.len, SP_T_TIME, 0);
	ok(age >= 0 && age < 1000000000, "its time is now");
	ok(sp_fields_num(p, h.len, SP_T_GENERATION, 0) == 7, "its generation");
	ok(sp_fields_find(p, h.len, SP_T_MARKER, &d, &n) && n == 16 && d[3] == 0x5a,
	   "its marker is the one for the next load");
	ok(sp_fields_find(p, h.len, SP_T_ENTROPY, &d, &n) && n == 64, "its entropy");
	ok(!r.seen[SP_MUX_READY], "not ready before READY");
	rig_ready(&r, 7);
	ok(r.seen[SP_MUX_READY] == 1 && r.value == 2, "READY, with the hooks that failed");
	rig_end(&r);
}

static void test_load(void)
{
	struct sp_mux_welcome w;
	const unsigned char *p;
	struct sp_g_header h;
	struct rig r;

	rig_begin(&r);
	w = rig_connect(&r, false);
	rig_pull(&r, &r.guest);
	ok(sp_buf_len(&r.guest.in) > SP_G_MARKER_LEN &&
		   memcmp(sp_buf_head(&r.guest.in), w.marker_now, SP_G_MARKER_LEN) == 0,
	   "load: marker and WELCOME are sent at once");
	rig_skip_marker(&r);
	ok(rig_next(&r, &r.guest, &h, &p) == SP_G_WELCOME, "WELCOME");
	rig_send(&r, &r.guest, SP_G_COLD_MARKER, SP_G_MARKER_LEN);
	rig_send(&r, &r.guest, w.marker_now, 9); /* garbage that begins as the marker does */
	rig_send(&r, &r.guest, "x", 1);
	for (int i = 0; i < SP_G_MARKER_LEN; i++)
		rig_send(&r, &r.guest, w.marker_now + i, 1);
	rig_hello(&r);
	rig_ready(&r, 7);
	ok(r.seen[SP_MUX_READY] == 1, "the marker is found across reads, behind garbage");
	rig_end(&r);

	rig_begin(&r);
	w = rig_connect(&r, false);
	rig_send(&r, &r.guest, w.marker_now, SP_G_MARKER_LEN);
	rig_hello(&r);
	rig_ready(&r, 6);
	ok(!r.seen[SP_MUX_READY] && r.seen[SP_MUX_LOST] == 1, "READY of another generation: lost");
	rig_end(&r);
}

static void test_garbage(size_t n, bool found)
{
	struct sp_mux_welcome w;
	struct rig r;

	rig_begin(&r);
	w = rig_connect(&r, false);
	for (size_t left = n; left && r.seen[SP_MUX_LOST] == 0;) {
		size_t part = left < sizeof big ? left : sizeof big;

		rig_send(&r, &r.guest, big, part);
		left -= part;
	}
	rig_send(&r, &r.guest, w.marker_now, SP_G_MARKER_LEN);
	rig_hello(&r);
	rig_ready(&r, 7);
	ok((r.seen[SP_MUX_READY] == 1) == found && (r.seen[SP_MUX_LOST] == 0) == found,
	   "%zu bytes before the marker: %s", n, found ? "ready" : "lost");
	if (!found) {
		rig_client(&r, 0);
		ok(rig_client_got(&r, 0, SP_G_ERROR, SP_FAIL), "and who comes then is refused");
	}
	rig_end(&r);
}

static void test_session(void)
{
	const unsigned char *p;
	struct sp_g_header h;
	uint32_t a, b;
	struct rig r;
	uint64_t v;

	rig_begin_ready(&r);
	a = rig_open_on(&r, 0);
	b = rig_open_on(&r, 1);
	ok(a && b && a != b, "each client has a channel of its own");
	ok(rig_works(&r, 0, a, 100) && rig_works(&r, 1, b, 0), "output goes to whose it is");
	rig_u64(&r, &r.client[0], 0, SP_G_ACK, 1, 104);
	ok(rig_next(&r, &r.guest, &h, &p) == SP_G_ACK && h.chan == a && h.stream == 1 &&
		   sp_frame_get_u64(p, h.len, &v) == 0 && v == 104,
	   "ACK of output reaches the guest");
	rig_data(&r, &r.client[1], 0, 0, 50, "abc", 3);
	ok(rig_next(&r, &r.guest, &h, &p) == SP_G_DATA && h.chan == b && h.stream == 0 &&
		   memcmp(p + 8, "abc", 3) == 0,
	   "input reaches the guest");
	rig_u64(&r, &r.guest, b, SP_G_ACK, 0, 52);
	rig_u64(&r, &r.guest, b, SP_G_ACK, 0, 53);
	ok(rig_next(&r, &r.client[1], &h, &p) == SP_G_ACK &&
		   rig_next(&r, &r.client[1], &h, &p) == SP_G_ACK &&
		   sp_frame_get_u64(p, h.len, &v) == 0 && v == 53,
	   "ACK of input reaches the client");
	rig_data(&r, &r.guest, a, 2, 0, "err", 3);
	rig_u64(&r, &r.guest, a, SP_G_EOF, 1, 104);
	rig_u64(&r, &r.guest, a, SP_G_EOF, 2, 3);
	rig_frame(&r, &r.guest, a, SP_G_EXIT, 0, NULL, 0);
	ok(rig_client_got(&r, 0, SP_G_DATA, -1) && rig_client_got(&r, 0, SP_G_EOF, -1) &&
		   rig_client_got(&r, 0, SP_G_EOF, -1) && rig_client_got(&r, 0, SP_G_EXIT, -1),
	   "data, then EOF of both, then EXIT");
	rig_frame(&r, &r.guest, a, 200, 0, NULL, 0);
	ok(rig_next(&r, &r.client[0], &h, &p) == 0, "the session stays until its client goes");
	rig_close(&r.client[0]);
	rig_settle(&r);
	ok(rig_guest_got(&r, SP_G_CLOSE, a), "then the guest gets CLOSE");
	rig_data(&r, &r.guest, a, 1, 104, "late", 4);
	ok(rig_works(&r, 1, b, 4), "a late frame of a closed session is passed over");
	rig_frame(&r, &r.guest, b, SP_G_END, 0, NULL, 0);
	ok(rig_client_got(&r, 1, SP_G_END, -1) && rig_next(&r, &r.client[1], &h, &p) == -1,
	   "END ends the connection");
	rig_pull(&r, &r.guest);
	ok(sp_buf_len(&r.guest.in) == 0, "and the guest is told nothing that it knows");
	rig_end(&r);
}

static void test_held(void)
{
	struct sp_mux_welcome w;
	struct rig r;

	rig_begin(&r);
	rig_frame(&r, rig_client(&r, 0), 0, SP_G_PS, 0, NULL, 0);
	rig_frame(&r, rig_client(&r, 1), 0, SP_G_PS, 0, NULL, 0);
	rig_close(&r.client[1]);
	rig_settle(&r);
	w = rig_connect(&r, false);
	rig_skip_marker(&r);
	ok(rig_guest_got(&r, SP_G_WELCOME, 0), "greeted");
	rig_send(&r, &r.guest, w.marker_now, SP_G_MARKER_LEN);
	rig_hello(&r);
	rig_pull(&r, &r.guest);
	ok(sp_buf_len(&r.guest.in) == 0, "no session is opened before READY");
	rig_ready(&r, 7);
	ok(rig_guest_got(&r, SP_G_PS, 64), "the request that waited goes out with READY");
	rig_pull(&r, &r.guest);
	ok(sp_buf_len(&r.guest.in) == 0, "the one whose client went does not");
	rig_end(&r);
}

static void test_window(void)
{
	struct rig r;
	uint32_t a, b;
	int last;

	rig_begin_ready(&r);
	a = rig_open_on(&r, 0);
	b = rig_open_on(&r, 1);
	rig_output(&r, a, 0, SP_G_WINDOW, 60000);
	ok(rig_drain(&r, 0, &last) == SP_G_WINDOW && last == SP_G_DATA,
	   "a whole window passes unacknowledged");
	rig_u64(&r, &r.client[0], 0, SP_G_ACK, 1, 1000);
	rig_output(&r, a, SP_G_WINDOW, 1000, 1000);
	ok(rig_drain(&r, 0, &last) == 1000, "an ACK opens it that far");
	ok(rig_guest_got(&r, SP_G_ACK, a), "(the ACK)");
	rig_output(&r, a, SP_G_WINDOW + 1000, 1, 1);
	ok(rig_drain(&r, 0, &last) == 0 && last == SP_G_ERROR, "one byte more: ERROR");
	ok(rig_guest_got(&r, SP_G_CLOSE, a), "and CLOSE to the guest");
	ok(rig_works(&r, 1, b, 0), "the other session goes on");
	rig_u64(&r, &r.client[1], 0, SP_G_ACK, 1, 5);
	ok(rig_client_got(&r, 1, SP_G_ERROR, SP_USAGE), "an ACK beyond what was sent is refused");
	rig_end(&r);
}

static void test_hostile_frames(void)
{
	static const struct {
		int type, stream;
		const char *what;
	} bad[] = {
		{ 200, 0, "an unknown type" },       { SP_G_LOST, 0, "LOST" },
		{ SP_G_CLOSE, 0, "CLOSE" },          { SP_G_DATA, 0, "output on the input" },
		{ SP_G_DATA, 3, "a stream too many" }, { SP_G_ACK, 1, "an ACK of output" },
		{ SP_G_EXEC, 0, "a request" },
	};
	unsigned char text[16] = { SP_T_MESSAGE, 200 };
	uint32_t a, b;
	struct rig r;
	int n = 1;

	rig_begin_ready(&r);
	b = rig_open_on(&r, 1);
	for (size_t i = 0; i < SP_NELEM(bad); i++) {
		a = rig_open_on(&r, 0);
		rig_u64(&r, &r.guest, a, bad[i].type, bad[i].stream, 0);
		ok(rig_client_got(&r, 0, SP_G_ERROR, SP_FAIL) && rig_guest_got(&r, SP_G_CLOSE, a) &&
			   rig_works(&r, 1, b, (uint64_t)(n++ - 1) * 4),
		   "%s loses its session and no other", bad[i].what);
		rig_close(&r.client[0]);
	}
	a = rig_open_on(&r, 0);
	rig_frame(&r, &r.guest, a, SP_G_OPENED, 0, NULL, 0);
	ok(rig_client_got(&r, 0, SP_G_ERROR, SP_FAIL), "a second OPENED loses it");
	rig_guest_got(&r, SP_G_CLOSE, a);
	a = rig_open_on(&r, 0);
	rig_frame(&r, &r.guest, a, SP_G_ENTRY, 0, text, sizeof text);
	ok(rig_client_got(&r, 0, SP_G_ERROR, SP_FAIL), "fields that run over the end lose it");
	rig_guest_got(&r, SP_G_CLOSE, a);
	a = rig_open_on(&r, 0);
	rig_data(&r, &r.guest, a, 1, 10, "abc", 3);
	rig_data(&r, &r.guest, a, 1, 11, "abc", 3);
	ok(rig_client_got(&r, 0, SP_G_DATA, -1) && rig_client_got(&r, 0, SP_G_ERROR, SP_FAIL),
	   "output at an offset that was told before loses it");
	rig_guest_got(&r, SP_G_CLOSE, a);
	a = rig_open_on(&r, 0);
	rig_data(&r, &r.guest, a, 1, UINT64_MAX - 1, "abc", 3);
	ok(rig_client_got(&r, 0, SP_G_ERROR, SP_FAIL), "an offset that would wrap loses it");
	rig_guest_got(&r, SP_G_CLOSE, a);
	a = rig_open_on(&r, 0);
	rig_u64(&r, &r.guest, a, SP_G_EOF, 1, 0);
	rig_data(&r, &r.guest, a, 1, 0, "abc", 3);
	ok(rig_client_got(&r, 0, SP_G_EOF, -1) && rig_client_got(&r, 0, SP_G_ERROR, SP_FAIL),
	   "output after its end loses it");
	rig_guest_got(&r, SP_G_CLOSE, a);
	for (uint32_t chan = 1; chan < 1000; chan++)
		if (chan != b)
			rig_data(&r, &r.guest, chan, 1, 0, "abc", 3);
	ok(rig_works(&r, 1, b, (uint64_t)(n - 1) * 4), "channels that nobody has are passed over");
	rig_end(&r);
}

static void test_broken(void)
{
	unsigned char frame[SP_G_HEADER] = { 0, 0, 2, 0, SP_G_DATA };
	struct sp_mux_welcome w;
	struct rig r;

	rig_begin_ready(&r);
	rig_open_on(&r, 0);
	rig_open_on(&r, 1);
	rig_send(&r, &r.guest, frame, sizeof frame);
	ok(rig_client_got(&r, 0, SP_G_LOST, SP_FAIL) && rig_client_got(&r, 1, SP_G_LOST, SP_FAIL) &&
		   r.seen[SP_MUX_LOST] == 1,
	   "a frame too long breaks the channel: LOST to every client, told once");
	rig_client(&r, 2);
	ok(rig_client_got(&r, 2, SP_G_ERROR, SP_FAIL), "who comes now is refused");
	rig_end(&r);

	rig_begin_ready(&r);
	rig_open_on(&r, 0);
	rig_close(&r.guest);
	rig_settle(&r);
	ok(rig_client_got(&r, 0, SP_G_LOST, SP_FAIL) && r.seen[SP_MUX_LOST] == 1,
	   "a hang-up: LOST");
	rig_client(&r, 2);
	ok(rig_client_got(&r, 2, 0, -1), "who comes now waits for the next channel");
	rig_end(&r);

	rig_begin_ready(&r);
	rig_hello(&r);
	ok(r.seen[SP_MUX_LOST] == 1, "HELLO out of turn breaks the channel");
	rig_end(&r);

	rig_begin(&r);
	w = rig_connect(&r, false);
	rig_send(&r, &r.guest, w.marker_now, SP_G_MARKER_LEN);
	rig_hello(&r);
	rig_data(&r, &r.guest, 64, 1, 0, "x", 1);
	ok(r.seen[SP_MUX_LOST] == 1, "a session's frame before READY breaks the channel");
	rig_end(&r);
}

static void test_client_faults(void)
{
	struct rig r;
	uint32_t a;

	rig_begin_ready(&r);
	rig_data(&r, rig_client(&r, 0), 0, 0, 0, "x", 1);
	ok(rig_client_got(&r, 0, SP_G_ERROR, SP_USAGE), "a session begins with a request");
	a = rig_open_on(&r, 0);
	rig_frame(&r, &r.client[0], 0, SP_G_EXEC, 0, NULL, 0);
	ok(rig_client_got(&r, 0, SP_G_ERROR, SP_USAGE) && rig_guest_got(&r, SP_G_CLOSE, a),
	   "and has only one");
	rig_open_on(&r, 0);
	for (uint64_t off = 0; off < SP_G_WINDOW; off += 32768)
		rig_data(&r, &r.client[0], 0, 0, off, big, 32768);
	ok(rig_client_got(&r, 0, 0, -1), "a window of input passes");
	rig_data(&r, &r.client[0], 0, 0, SP_G_WINDOW, big, 1);
	ok(rig_client_got(&r, 0, SP_G_ERROR, SP_USAGE), "input beyond the window is refused");
	rig_end(&r);
}

static void test_hang_up(void)
{
	struct sp_mux_welcome w;
	const unsigned char *p;
	struct sp_g_header h;
	struct rig r;
	uint32_t a;
	int last;

	rig_begin_ready(&r);
	a = rig_open_on(&r, 0);
	rig_output(&r, a, 0, SP_G_WINDOW, 60000);
	sp_mux_hang_up(r.m, SP_CONFLICT, "the sandbox is being paused");
	ok(rig_drain(&r, 0, &last) == SP_G_WINDOW && last == SP_G_LOST,
	   "hang up: what is buffered, then LOST");
	rig_frame(&r, rig_client(&r, 1), 0, SP_G_PS, 0, NULL, 0);
	ok(rig_client_got(&r, 1, 0, -1), "who comes now waits");
	ok(r.seen[SP_MUX_LOST] == 0, "no event for what was asked");
	w = rig_connect(&r, false);
	rig_skip_marker(&r);
	rig_next(&r, &r.guest, &h, &p);
	rig_send(&r, &r.guest, w.marker_now, SP_G_MARKER_LEN);
	rig_hello(&r);
	rig_ready(&r, 7);
	ok(rig_next(&r, &r.guest, &h, &p) == SP_G_PS, "and is served on the next channel");
	rig_end(&r);
}

/* READY and a broken frame come in one read; the channel is replaced after the first event. */
static void test_stale_event(void)
{
	unsigned char frame[SP_G_HEADER] = { 0, 0, 2, 0, SP_G_DATA };
	struct sp_mux_welcome w;
	struct sp_fields f;
	unsigned char mem[64];
	struct sp_buf b;
	uint64_t value;
	struct rig r;

	rig_begin(&r);
	w = rig_connect(&r, false);
	rig_send(&r, &r.guest, w.marker_now, SP_G_MARKER_LEN);
	rig_hello(&r);
	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u64(&f, SP_T_GENERATION, 7);
	sp_buf_init(&b, 1000);
	sp_frame_put(&b, 0, SP_G_READY, 0, mem, (uint32_t)f.len);
	sp_buf_put(&b, frame, sizeof frame);
	send(r.guest.fd, sp_buf_head(&b), sp_buf_len(&b), 0);
	ok(sp_mux_step(r.m, &value) == SP_MUX_READY, "events come one at a time");
	rig_connect(&r, false);
	rig_settle(&r);
	ok(r.seen[SP_MUX_LOST] == 0, "one of the channel before is not told");
	sp_buf_free(&b);
	rig_end(&r);
}

static void test_freeze(void)
{
	unsigned char mem[16];
	struct sp_fields f;
	struct sp_err e;
	struct rig r;

	rig_begin_ready(&r);
	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u32(&f, SP_T_CODE, 16);
	rig_frame(&r, &r.guest, 0, SP_G_FROZEN, 0, mem, f.len);
	ok(!r.seen[SP_MUX_FROZEN], "an answer that nobody asked for is no event");
	ok(sp_mux_freeze(r.m, 500, &e) == 0 && rig_guest_got(&r, SP_G_FREEZE, 0), "FREEZE is sent");
	rig_frame(&r, &r.guest, 0, SP_G_FROZEN, 0, mem, f.len);
	ok(r.seen[SP_MUX_FROZEN] == 1 && r.value == 16, "FROZEN, with the guest's code");
	ok(sp_mux_thaw(r.m, &e) == 0 && rig_guest_got(&r, SP_G_THAW, 0), "THAW is sent");
	rig_frame(&r, &r.guest, 0, SP_G_THAWED, 0, NULL, 0);
	ok(r.seen[SP_MUX_THAWED] == 1, "THAWED");
	sp_mux_freeze(r.m, 500, &e);
	sp_mux_freeze(r.m, 500, &e);
	rig_frame(&r, &r.guest, 0, SP_G_FROZEN, 0, mem, f.len);
	ok(r.seen[SP_MUX_FROZEN] == 1, "a late answer is not taken for the next one's");
	rig_frame(&r, &r.guest, 0, SP_G_FROZEN, 0, mem, f.len);
	ok(r.seen[SP_MUX_FROZEN] == 2, "the next one's is");
	sp_mux_hang_up(r.m, SP_BUSY, "x");
	ok(sp_mux_freeze(r.m, 500, &e) < 0 && e.code == SP_BUSY, "no channel: busy");
	rig_end(&r);
}

int main(void)
{
	test_cold();
	test_load();
	test_garbage(SP_G_MARKER_LEN, true);
	test_garbage(1u << 20, true);
	test_garbage((1u << 20) + 16, false);
	test_garbage(64u << 20, false);
	test_session();
	test_held();
	test_window();
	test_hostile_frames();
	test_broken();
	test_client_faults();
	test_hang_up();
	test_stale_event();
	test_freeze();
	return tap_done();
}
