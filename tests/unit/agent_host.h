/* SPDX-License-Identifier: Apache-2.0 */
/* The outside of the guest channel for tests: runs build/bin/space-guest (SPACE_BIN names another
 * folder) on a socketpair, and drives sessions with it. Every wait has a deadline. */
#ifndef SP_TESTS_AGENT_HOST_H
#define SP_TESTS_AGENT_HOST_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/str.h"
#include "guest/frame.h"

#define WAIT_MS 20000
#define RUNS 80

struct run { /* one session */
	uint32_t chan;
	struct sp_str out[2];
	uint64_t got[2];   /* offsets: received up to here */
	uint64_t first[2]; /* of the first DATA */
	bool seen[2], eof[2];
	bool opened, exited, ended, failed;
	bool no_acks;
	int status, code;
	char message[512];
	char proc[32];
	uint64_t pid, off_in;
	uint64_t in_end, in_acked;
	bool torn;             /* a DATA frame was not where the last one ended */
	struct sp_str entries; /* payloads, each after its u32 length */
	unsigned nentries;
};

struct host {
	int fd;
	pid_t pid;
	struct sp_buf in, out;
	bool synced, closed, broken;
	unsigned char marker[SP_G_MARKER_LEN];
	unsigned hellos, readies;
	uint64_t hello_generation, ready_generation, ready_failed;
	int frozen, thawed; /* -1: not told */
	bool metrics;
	uint64_t mem_total;
	struct run *runs[RUNS];
	uint32_t next_chan;
	uint64_t most_unacked;
};

static inline int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static inline void host_start(struct host *h, const char *hooks)
{
	const char *bin = getenv("SPACE_BIN");
	char path[512], number[16];
	int pair[2];

	memset(h, 0, sizeof *h);
	h->frozen = h->thawed = -1;
	sp_buf_init(&h->in, 4u << 20);
	sp_buf_init(&h->out, 4u << 20);
	memcpy(h->marker, SP_G_COLD_MARKER, SP_G_MARKER_LEN);
	snprintf(path, sizeof path, "%s/space-guest", bin ? bin : "build/bin");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		abort();
	h->pid = fork();
	if (h->pid == 0) {
		fcntl(pair[1], F_SETFD, 0);
		snprintf(number, sizeof number, "%d", pair[1]);
		execl(path, path, "--channel", number, hooks ? "--hooks" : NULL, hooks, NULL);
		perror(path);
		_exit(127);
	}
	close(pair[1]);
	h->fd = pair[0];
	fcntl(h->fd, F_SETFL, O_NONBLOCK);
}

static inline void run_free(struct host *h, struct run *r)
{
	for (int i = 0; i < RUNS; i++)
		if (h->runs[i] == r)
			h->runs[i] = NULL;
	sp_str_free(&r->out[0]);
	sp_str_free(&r->out[1]);
	sp_str_free(&r->entries);
	free(r);
}

/* Closes the channel; the agent's exit status (it ends with it). */
static inline int host_stop(struct host *h)
{
	int status = -1;

	for (int i = 0; i < RUNS; i++)
		if (h->runs[i])
			run_free(h, h->runs[i]);
	close(h->fd);
	waitpid(h->pid, &status, 0);
	sp_buf_free(&h->in);
	sp_buf_free(&h->out);
	return status;
}

static inline struct run *run_new(struct host *h)
{
	struct run *r = sp_xcalloc(1, sizeof *r);

	for (int i = 0; i < RUNS; i++) {
		if (h->runs[i])
			continue;
		h->runs[i] = r;
		r->chan = ++h->next_chan;
		r->out[0] = r->out[1] = r->entries = (struct sp_str)SP_STR_INIT;
		return r;
	}
	abort();
}

static inline void run_data(struct host *h, struct run *r, const struct sp_g_header *f,
			    const unsigned char *p)
{
	uint64_t off = 0;
	int i = f->stream - 1;

	sp_frame_get_u64(p, f->len, &off);
	if (i < 0 || i > 1) {
		h->broken = true;
		return;
	}
	if (f->type == SP_G_EOF) {
		r->eof[i] = true;
		r->torn |= r->seen[i] && off != r->got[i];
		r->got[i] = off;
		return;
	}
	if (!r->seen[i])
		r->first[i] = off;
	else
		r->torn |= off != r->got[i];
	r->seen[i] = true;
	sp_str_addn(&r->out[i], p + 8, f->len - 8);
	r->got[i] = off + f->len - 8;
	if (!r->no_acks)
		sp_frame_put_u64(&h->out, r->chan, SP_G_ACK, f->stream, r->got[i]);
}

static inline void run_frame(struct host *h, struct run *r, const struct sp_g_header *f,
			     const unsigned char *p)
{
	switch (f->type) {
	case SP_G_OPENED:
		r->opened = true;
		r->pid = sp_fields_num(p, f->len, SP_T_PID, 0);
		r->off_in = sp_fields_num(p, f->len, SP_T_OFF_IN, 0);
		sp_fields_text(p, f->len, SP_T_PROC, r->proc, sizeof r->proc);
		break;
	case SP_G_DATA:
	case SP_G_EOF:
		run_data(h, r, f, p);
		break;
	case SP_G_ACK:
		sp_frame_get_u64(p, f->len, &r->in_acked);
		break;
	case SP_G_EXIT:
		r->exited = true;
		r->status = (int)sp_fields_num(p, f->len, SP_T_STATUS, 0xffffff);
		break;
	case SP_G_ENTRY:
		sp_str_addn(&r->entries, &f->len, sizeof f->len);
		sp_str_addn(&r->entries, p, f->len);
		r->nentries++;
		break;
	case SP_G_END:
		r->ended = true;
		break;
	case SP_G_ERROR:
		r->failed = true;
		r->code = (int)sp_fields_num(p, f->len, SP_T_CODE, 0);
		sp_fields_text(p, f->len, SP_T_MESSAGE, r->message, sizeof r->message);
		break;
	default:
		h->broken = true;
	}
}

static inline void agent_frame(struct host *h, const struct sp_g_header *f, const unsigned char *p)
{
	switch (f->type) {
	case SP_G_HELLO:
		h->hellos++;
		h->hello_generation = sp_fields_num(p, f->len, SP_T_GENERATION, 99);
		break;
	case SP_G_READY:
		h->readies++;
		h->ready_generation = sp_fields_num(p, f->len, SP_T_GENERATION, 0);
		h->ready_failed = sp_fields_num(p, f->len, SP_T_VALUE, 99);
		break;
	case SP_G_FROZEN:
		h->frozen = (int)sp_fields_num(p, f->len, SP_T_CODE, 99);
		break;
	case SP_G_THAWED:
		h->thawed = (int)sp_fields_num(p, f->len, SP_T_CODE, 99);
		break;
	case SP_G_METRICS:
		h->metrics = true;
		h->mem_total = sp_fields_num(p, f->len, SP_T_MEM_TOTAL, 0);
		break;
	default:
		h->broken = true;
	}
}

static inline void host_take(struct host *h)
{
	const unsigned char *p;
	struct sp_g_header f;
	int r;

	if (!h->synced) {
		unsigned char *at = sp_buf_len(&h->in)
					    ? memmem(sp_buf_head(&h->in), sp_buf_len(&h->in),
						     h->marker, SP_G_MARKER_LEN)
					    : NULL;

		if (!at)
			return;
		sp_buf_drop(&h->in, (size_t)(at - sp_buf_head(&h->in)) + SP_G_MARKER_LEN);
		h->synced = true;
	}
	while ((r = sp_frame_peek(&h->in, &f, &p)) == 1) {
		struct run *to = NULL;

		for (int i = 0; i < RUNS; i++)
			if (h->runs[i] && h->runs[i]->chan == f.chan)
				to = h->runs[i];
		if (!f.chan)
			agent_frame(h, &f, p);
		else if (to)
			run_frame(h, to, &f, p);
		sp_buf_drop(&h->in, SP_G_HEADER + f.len);
	}
	h->broken |= r < 0;
}

/* Moves bytes for at most ms; false when nothing came or went. */
static inline bool host_step(struct host *h, int ms)
{
	struct pollfd p = { .fd = h->fd,
			    .events = (short)(POLLIN | (sp_buf_len(&h->out) ? POLLOUT : 0)) };
	unsigned char *room;
	ssize_t n;

	if (h->closed || poll(&p, 1, ms) <= 0)
		return false;
	if (p.revents & POLLOUT) {
		n = send(h->fd, sp_buf_head(&h->out), sp_buf_len(&h->out), MSG_NOSIGNAL);
		if (n > 0)
			sp_buf_drop(&h->out, (size_t)n);
	}
	if (p.revents & (POLLIN | POLLHUP)) {
		room = sp_buf_room(&h->in, 65536);
		n = read(h->fd, room, 65536);
		if (n > 0)
			sp_buf_added(&h->in, (size_t)n);
		else if (n == 0)
			h->closed = true;
		host_take(h);
	}
	return true;
}

/* Goes on until the condition holds; false past the deadline. */
#define host_until(h, cond)                                                                        \
	__extension__({                                                                            \
		int64_t end_ = now_ms() + WAIT_MS;                                                 \
		while (!(cond) && !(h)->closed && now_ms() < end_)                                 \
			host_step(h, 100);                                                         \
		(cond);                                                                            \
	})

/* Moves bytes until nothing has come for ms. */
static inline void host_quiet(struct host *h, int ms)
{
	while (host_step(h, ms))
		;
}

static inline void host_welcome(struct host *h, uint64_t generation, bool same, const char *next)
{
	unsigned char mem[512], entropy[64] = { 7 };
	struct sp_fields f;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u32(&f, SP_T_VERSION, SP_G_VERSION);
	sp_fields_add_u64(&f, SP_T_GENERATION, generation);
	sp_fields_add_u8(&f, SP_T_SAME, same);
	sp_fields_add_u64(&f, SP_T_TIME, 1);
	sp_fields_add(&f, SP_T_ENTROPY, entropy, sizeof entropy);
	sp_fields_add(&f, SP_T_MARKER, next, SP_G_MARKER_LEN);
	sp_fields_add_str(&f, SP_T_HOSTNAME, "never-set");
	sp_fields_add_str(&f, SP_T_ID, "s0123456789abcdefghij");
	sp_buf_put(&h->out, h->marker, SP_G_MARKER_LEN);
	sp_frame_put(&h->out, 0, SP_G_WELCOME, 0, mem, (uint32_t)f.len);
	memcpy(h->marker, next, SP_G_MARKER_LEN);
}

/* As after a load: what is on its way is lost, the marker says so. */
static inline void host_reload(struct host *h, uint64_t generation, bool same, const char *next)
{
	unsigned char old[SP_G_MARKER_LEN];

	memcpy(old, h->marker, sizeof old);
	sp_buf_drop(&h->out, sp_buf_len(&h->out));
	h->synced = false;
	host_welcome(h, generation, same, next);
	memcpy(h->marker, old, sizeof old); /* looked for in what comes back */
}

static inline bool host_reloaded(struct host *h, uint64_t generation, const char *next)
{
	bool good = host_until(h, h->synced && h->ready_generation == generation);

	memcpy(h->marker, next, SP_G_MARKER_LEN);
	return good;
}

static inline bool host_boot(struct host *h, const char *hooks)
{
	host_start(h, hooks);
	if (!host_until(h, h->hellos == 1))
		return false;
	host_welcome(h, 1, false, "first-marker-abc");
	return host_until(h, h->readies == 1);
}

/* A request of fields already built. */
static inline struct run *host_open(struct host *h, enum sp_g_type type, const struct sp_fields *f)
{
	struct run *r = run_new(h);

	if (sp_fields_end(f))
		abort();
	sp_frame_put(&h->out, r->chan, type, 0, f->mem, (uint32_t)f->len);
	return r;
}

struct how {
	const char *proc, *user, *cwd, *env;
	bool tty, detach, input, no_acks;
};

static inline struct run *host_exec(struct host *h, const struct how *how, const char *const *argv)
{
	static unsigned char mem[65536];
	struct sp_fields f;
	struct run *r;

	sp_fields_begin(&f, mem, sizeof mem);
	while (*argv)
		sp_fields_add_str(&f, SP_T_ARG, *argv++);
	sp_fields_add_str(&f, SP_T_PROC, how->proc);
	sp_fields_add_str(&f, SP_T_USER, how->user);
	sp_fields_add_str(&f, SP_T_CWD, how->cwd);
	sp_fields_add_str(&f, SP_T_ENV, how->env);
	sp_fields_add_u8(&f, SP_T_TTY, how->tty);
	sp_fields_add_u8(&f, SP_T_DETACH, how->detach);
	sp_fields_add_u8(&f, SP_T_STDIN, how->input);
	r = host_open(h, SP_G_EXEC, &f);
	r->no_acks = how->no_acks;
	return r;
}

#define ARGV(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define SH(text) ARGV("sh", "-c", text)

static inline struct run *host_attach(struct host *h, const char *proc, uint64_t out, uint64_t err)
{
	unsigned char mem[256];
	struct sp_fields f;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_str(&f, SP_T_PROC, proc);
	sp_fields_add_u64(&f, SP_T_OFF_OUT, out);
	sp_fields_add_u64(&f, SP_T_OFF_ERR, err);
	return host_open(h, SP_G_ATTACH, &f);
}

static inline void run_input(struct host *h, struct run *r, const void *data, size_t n)
{
	sp_frame_put_data(&h->out, r->chan, 0, r->in_end, data, (uint32_t)n);
	r->in_end += n;
}

static inline void run_input_eof(struct host *h, struct run *r)
{
	sp_frame_put_u64(&h->out, r->chan, SP_G_EOF, 0, r->in_end);
}

static inline void run_signal(struct host *h, struct run *r, int signal)
{
	unsigned char mem[16];
	struct sp_fields f;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u32(&f, SP_T_SIGNAL, (uint32_t)signal);
	sp_frame_put(&h->out, r->chan, SP_G_SIGNAL, 0, mem, (uint32_t)f.len);
}

static inline void run_close(struct host *h, struct run *r)
{
	sp_frame_put(&h->out, r->chan, SP_G_CLOSE, 0, NULL, 0);
	run_free(h, r);
}

/* What PS says of a process: its state letter, or 0; *n counts all entries. */
static inline char proc_state(struct host *h, const char *proc, unsigned *n)
{
	struct sp_fields none = { 0 };
	struct run *r = host_open(h, SP_G_PS, &none);
	char state = 0, id[32];
	const char *p;

	host_until(h, r->ended || r->failed);
	p = r->entries.p;
	for (unsigned i = 0; i < r->nentries; i++) {
		uint32_t len;

		memcpy(&len, p, sizeof len);
		p += sizeof len;
		sp_fields_text((const unsigned char *)p, len, SP_T_PROC, id, sizeof id);
		if (strcmp(id, proc) == 0)
			state = (char)sp_fields_num((const unsigned char *)p, len, SP_T_STATE, '?');
		p += len;
	}
	*n = r->nentries;
	run_free(h, r);
	return state;
}

static inline bool proc_ends(struct host *h, const char *proc)
{
	int64_t end = now_ms() + WAIT_MS;
	unsigned n;

	while (proc_state(h, proc, &n) != 'x' && now_ms() < end)
		host_step(h, 20);
	return proc_state(h, proc, &n) == 'x';
}

static inline bool run_over(const struct run *r)
{
	return r->exited || r->ended || r->failed;
}

static inline uint64_t fnv(const void *data, size_t n)
{
	const unsigned char *p = data;
	uint64_t v = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < n; i++)
		v = (v ^ p[i]) * 0x100000001b3ull;
	return v;
}

#endif
