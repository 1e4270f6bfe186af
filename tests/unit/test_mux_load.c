/* SPDX-License-Identifier: Apache-2.0 */
/* The mux under load: clients and guests that do not read, memory, throughput. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/str.h"
#include "mux_rig.h"
#include "sys/clock.h"
#include "tap.h"

static atomic_int flows_done;

/* A client that does not read: the others go on, its own output waits, all of it, in bounds. */
static void test_stall(void)
{
	struct rig_peer *slow;
	const unsigned char *p;
	struct sp_g_header h;
	uint64_t off[3] = { 0 };
	uint32_t a, b;
	struct rig r;
	bool good = true;
	int t;

	rig_begin_ready(&r);
	a = rig_open_on(&r, 0);
	b = rig_open_on(&r, 1);
	for (uint32_t i = 0; i < 2 * SP_G_WINDOW; i++) { /* one byte a frame, alternating */
		char c = (char)('a' + i % 26);
		int s = 1 + (int)(i % 2);

		rig_data(&r, &r.guest, a, s, off[s]++, &c, 1);
	}
	ok(rig_works(&r, 1, b, 0), "a stalled client does not stop another");
	slow = &r.client[0];
	off[1] = off[2] = 0;
	while ((t = rig_next(&r, slow, &h, &p)) == SP_G_DATA)
		for (uint32_t i = 8; i < h.len; i++, off[h.stream]++)
			good &= p[i] == 'a' + (off[h.stream] * 2 + h.stream - 1u) % 26;
	ok(t == 0 && good && off[1] == SP_G_WINDOW && off[2] == SP_G_WINDOW,
	   "and gets all of both outputs when it reads again");
	rig_end(&r);

	rig_begin_ready(&r);
	a = rig_open_on(&r, 0);
	b = rig_open_on(&r, 1);
	for (int i = 0; i < 40; i++) {
		unsigned char fields[5] = { SP_T_ARG };

		memset(big, 0, 5);
		fields[1] = (unsigned char)((sizeof big - 5) & 255);
		fields[2] = (unsigned char)((sizeof big - 5) >> 8);
		memcpy(big, fields, 5);
		rig_frame(&r, &r.guest, a, SP_G_ENTRY, 0, big, sizeof big);
	}
	memset(big, 0, 5);
	ok(rig_works(&r, 1, b, 0),
	   "answers without end to a client that does not read: others go on");
	for (t = 1; t > 0 && t != SP_G_ERROR;)
		t = rig_next(&r, &r.client[0], &h, &p);
	ok(t == SP_G_ERROR, "its own session is lost");
	rig_end(&r);
}

static void test_dead_client(void)
{
	unsigned char half[SP_G_HEADER] = { 100, 0, 0, 0, SP_G_DATA };
	uint32_t a, b;
	struct rig r;

	rig_begin_ready(&r);
	a = rig_open_on(&r, 0);
	b = rig_open_on(&r, 1);
	rig_send(&r, &r.client[0], half, sizeof half);
	rig_output(&r, a, 0, SP_G_WINDOW, 60000);
	rig_close(&r.client[0]);
	rig_settle(&r);
	ok(rig_guest_got(&r, SP_G_CLOSE, a), "a client that dies in a frame: CLOSE");
	ok(rig_works(&r, 1, b, 0), "the other session goes on");
	rig_end(&r);
}

/* A guest that reads nothing: what waits for it is bounded; when it reads, all is there. */
static void test_guest_stall(void)
{
	const unsigned char *p;
	struct sp_g_header h;
	size_t base, held, sent = 0, got = 0;
	struct rig r;
	bool good = true;
	int t;

	rig_begin_ready(&r);
	for (int i = 0; i < RIG_CLIENTS; i++)
		rig_open_on(&r, i);
	base = mallinfo2().uordblks + mallinfo2().hblkhd;
	for (int i = 0; i < RIG_CLIENTS; i++)
		for (uint64_t off = 0; off < SP_G_WINDOW; off += 32768) {
			good &= rig_data(&r, &r.client[i], 0, 0, off, big, 32768);
			sent += 32768;
		}
	held = mallinfo2().uordblks + mallinfo2().hblkhd - base;
	ok(good && held < 300000 + RIG_CLIENTS * 70000,
	   "a guest that reads nothing: %zu bytes wait", held);
	while ((t = rig_next(&r, &r.guest, &h, &p)) == SP_G_DATA)
		got += h.len - 8;
	ok(t == 0 && got == sent, "it reads again and gets %zu of %zu", got, sent);
	rig_end(&r);
}

static void test_many(void)
{
	struct rig r;
	int fd[SP_G_SESSIONS];

	rig_begin_ready(&r);
	for (size_t i = 0; i < SP_G_SESSIONS; i++) {
		fd[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert(connect(fd[i], (struct sockaddr *)&r.addr, r.addr_len) == 0);
		rig_settle(&r);
	}
	rig_client(&r, 0);
	ok(rig_client_got(&r, 0, SP_G_ERROR, SP_BUSY), "one session too many is told so");
	close(fd[3]);
	rig_settle(&r);
	ok(rig_open_on(&r, 0) % SP_G_SESSIONS == 3, "a slot that was left is used again");
	for (size_t i = 0; i < SP_G_SESSIONS; i++)
		if (i != 3)
			close(fd[i]);
	rig_settle(&r);
	rig_end(&r);
}

/* A flood keeps one step bounded, so that the monitor gets its turn. */
static void test_flood(void)
{
	struct sp_buf b;
	uint64_t value;
	struct rig r;
	int size = 8 << 20, before, after, steps = 0;
	socklen_t n = sizeof size;

	rig_begin_ready(&r);
	setsockopt(r.guest.fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, n);
	sp_buf_init(&b, SP_G_HEADER + SP_G_PAYLOAD);
	sp_frame_put(&b, 999, SP_G_DATA, 1, big, SP_G_PAYLOAD);
	before = 0;
	while (send(r.guest.fd, sp_buf_head(&b), sp_buf_len(&b), MSG_DONTWAIT) ==
	       (ssize_t)sp_buf_len(&b))
		before += (int)sp_buf_len(&b);
	for (after = before; after > 0 && steps < 1000; steps++, after -= 4 * 2 * 65548)
		sp_mux_step(r.m, &value);
	ok(before > 0 && after <= 0, "one step takes no more than its share of a flood");
	sp_buf_free(&b);
	rig_end(&r);
}

static void test_memory(void)
{
	size_t base, idle, peak, end;
	uint32_t a[RIG_CLIENTS];
	struct rig r;
	int last;

	base = mallinfo2().uordblks + mallinfo2().hblkhd;
	rig_begin_ready(&r);
	sp_buf_free(&r.guest.in);
	idle = mallinfo2().uordblks + mallinfo2().hblkhd;
	for (int i = 0; i < RIG_CLIENTS; i++)
		a[i] = rig_open_on(&r, i);
	for (int i = 0; i < RIG_CLIENTS; i++)
		rig_output(&r, a[i], 0, SP_G_WINDOW, 60000);
	peak = mallinfo2().uordblks + mallinfo2().hblkhd;
	ok(peak - idle < RIG_CLIENTS * (SP_G_WINDOW + 65536), "%d stalled sessions hold %zu bytes",
	   RIG_CLIENTS, peak - idle);
	ok(idle - base < 65536, "an idle mux holds %zu bytes", idle - base);
	for (int i = 0; i < RIG_CLIENTS; i++) {
		rig_drain(&r, i, &last);
		rig_close(&r.client[i]);
	}
	rig_settle(&r);
	rig_pull(&r, &r.guest);
	sp_buf_free(&r.guest.in);
	end = mallinfo2().uordblks + mallinfo2().hblkhd;
	ok(end <= idle + 4096, "and nothing when they are gone (%zu, %zu)", idle, end);
	rig_end(&r);
}

/* Throughput: a guest that takes all and sends as much, a client that does the same at once, each
 * in a thread, with windows and acknowledgements as they should be. */

#define FLOW_BYTES (100u << 20)

struct flow_end {
	int fd;
	uint32_t chan;
	uint8_t to, from; /* streams */
	uint64_t sent, acked, got;
	bool whole;
};

static void flow_frame(struct flow_end *f, const struct sp_g_header *h, const unsigned char *p,
		       struct sp_buf *out)
{
	uint64_t off = 0;

	sp_frame_get_u64(p, h->len, &off);
	if (h->type == SP_G_ACK)
		f->acked = off;
	if (h->type != SP_G_DATA)
		return;
	f->whole &= off == f->got && h->stream == f->from;
	for (uint32_t i = 8; i < h->len; i += 1021)
		f->whole &= p[i] == (unsigned char)((f->got + i - 8) / 7);
	f->got += h->len - 8;
	sp_frame_put_u64(out, f->chan, SP_G_ACK, f->from, f->got);
}

static void flow_fill(struct flow_end *f, struct sp_buf *out, unsigned char *mem)
{
	while (f->sent < FLOW_BYTES && f->sent + 32768 - f->acked <= SP_G_WINDOW &&
	       sp_buf_len(out) < 65536) {
		for (size_t i = 0; i < 32768; i++)
			mem[i] = (unsigned char)((f->sent + i) / 7);
		sp_frame_put_data(out, f->chan, f->to, f->sent, mem, 32768);
		f->sent += 32768;
	}
}

static void *flow_run(void *arg)
{
	struct flow_end *f = arg;
	unsigned char mem[32768];
	const unsigned char *p;
	struct sp_buf in, out;
	struct sp_g_header h;
	ssize_t n;

	sp_buf_init(&in, 1u << 20);
	sp_buf_init(&out, 1u << 20);
	while (f->whole && (f->got < FLOW_BYTES || f->acked < FLOW_BYTES)) {
		struct pollfd pf = { .fd = f->fd, .events = POLLIN };

		flow_fill(f, &out, mem);
		pf.events |= sp_buf_len(&out) ? POLLOUT : 0;
		poll(&pf, 1, -1);
		n = sp_buf_len(&out) ? send(f->fd, sp_buf_head(&out), sp_buf_len(&out),
					    MSG_DONTWAIT | MSG_NOSIGNAL) :
				       0;
		sp_buf_drop(&out, n > 0 ? (size_t)n : 0);
		n = recv(f->fd, sp_buf_room(&in, 131072), 131072, MSG_DONTWAIT);
		f->whole &= n > 0 || (n < 0 && errno == EAGAIN);
		sp_buf_added(&in, n > 0 ? (size_t)n : 0);
		while (sp_frame_peek(&in, &h, &p) == 1) {
			flow_frame(f, &h, p, &out);
			sp_buf_drop(&in, SP_G_HEADER + h.len);
		}
	}
	while (sp_buf_len(&out) && (n = send(f->fd, sp_buf_head(&out), sp_buf_len(&out), 0)) > 0)
		sp_buf_drop(&out, (size_t)n);
	sp_buf_free(&in);
	sp_buf_free(&out);
	atomic_fetch_add(&flows_done, 1);
	return NULL;
}

static void test_flow(void)
{
	struct flow_end guest = { .to = 1, .from = 0, .whole = true };
	struct flow_end client = { .to = 0, .from = 1, .whole = true };
	struct timespec cpu[2];
	pthread_t t[2];
	uint64_t value;
	struct rig r;
	int64_t ns;

	rig_begin_ready(&r);
	guest.chan = rig_open_on(&r, 0);
	guest.fd = r.guest.fd;
	client.fd = r.client[0].fd;
	ns = sp_clock_mono();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu[0]);
	pthread_create(&t[0], NULL, flow_run, &guest);
	pthread_create(&t[1], NULL, flow_run, &client);
	while (flows_done < 2) {
		struct pollfd pf = { .fd = sp_mux_fd(r.m), .events = POLLIN };

		if (poll(&pf, 1, 100) > 0)
			sp_mux_step(r.m, &value);
	}
	ns = sp_clock_mono() - ns;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu[1]);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	ok(guest.whole && client.whole && guest.got == FLOW_BYTES && client.got == FLOW_BYTES,
	   "%u MiB flow each way at once, whole", FLOW_BYTES >> 20);
	printf("# %.0f MiB/s each way; the mux used %.0f ms of processor for both\n",
	       (double)(FLOW_BYTES >> 20) / ((double)ns / 1e9),
	       (double)(cpu[1].tv_sec - cpu[0].tv_sec) * 1e3 +
		       (double)(cpu[1].tv_nsec - cpu[0].tv_nsec) / 1e6);
	rig_end(&r);
}

int main(void)
{
	test_stall();
	test_dead_client();
	test_guest_stall();
	test_many();
	test_flood();
	test_memory();
	test_flow();
	return tap_done();
}
