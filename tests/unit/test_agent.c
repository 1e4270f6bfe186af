/* SPDX-License-Identifier: Apache-2.0 */
/* The guest agent's channel, from outside: greeting, loads, what is malformed, hooks. */
#include <sys/stat.h>

#include "agent_host.h"
#include "tap.h"

#define M2 "second-marker-xy"
#define M3 "third-marker-123"

static void greeting(void)
{
	struct host h;
	struct run *r;
	static const struct how plain;

	host_start(&h, NULL);
	ok(host_until(&h, h.hellos == 1), "the agent greets first");
	ok(h.hello_generation == 0, "and has acknowledged nothing yet");
	sp_buf_put(&h.out, SP_G_COLD_MARKER, SP_G_MARKER_LEN);
	r = host_exec(&h, &plain, ARGV("true"));
	ok(host_until(&h, run_over(r)) && r->failed && r->code == SP_BUSY,
	   "a session before READY is refused");
	run_free(&h, r);
	host_welcome(&h, 5, false, "first-marker-abc");
	ok(host_until(&h, h.readies == 1) && h.ready_generation == 5 && h.ready_failed == 0,
	   "READY tells the generation");
	ok(h.hellos == 1, "a cold marker is not answered by another HELLO");
	r = host_exec(&h, &plain, ARGV("true"));
	ok(host_until(&h, r->exited) && r->status == 0, "then sessions are opened");
	ok(!h.broken, "nothing else was said");
	ok(host_stop(&h) == 0, "the agent of a test ends with its channel");
}

static void reload(void)
{
	struct host h;
	struct run *r, *again, *early;
	struct sp_buf rest;
	static const struct how held = { .proc = "pheld", .input = true };
	unsigned char cut[] = { 0xff, 0, 0, 0, SP_G_DATA, 0, 0, 0, 9, 0, 0, 0, 'x', 'y' };

	ok(host_boot(&h, NULL), "boot");
	r = host_exec(&h, &held, SH("echo one; read x; echo got $x; read y; echo and $y"));
	ok(host_until(&h, r->out[0].len == 4), "a process says something");
	early = run_new(&h);
	sp_buf_put(&h.out, cut, sizeof cut);
	host_quiet(&h, 200);
	/* Half of a frame is on its way when the machine is saved; the marker comes in two. */
	host_reload(&h, 2, true, M2);
	run_free(&h, r);
	/* The marker alone at first: a session must wait for READY. */
	sp_buf_init(&rest, 4096);
	sp_buf_put(&rest, sp_buf_head(&h.out) + SP_G_MARKER_LEN,
		   sp_buf_len(&h.out) - SP_G_MARKER_LEN);
	h.out.len = SP_G_MARKER_LEN;
	sp_frame_put(&h.out, early->chan, SP_G_PS, 0, NULL, 0);
	ok(host_until(&h, early->failed) && early->code == SP_BUSY, "not ready after a marker");
	sp_buf_put(&h.out, sp_buf_head(&rest), sp_buf_len(&rest));
	sp_buf_free(&rest);
	ok(host_reloaded(&h, 2, M2), "a marker in the middle of a frame is found");
	ok(h.hellos == 2 && h.hello_generation == 1,
	   "HELLO tells the generation acknowledged last");
	again = host_attach(&h, "pheld", 4, 0);
	ok(host_until(&h, again->opened) && again->off_in == 0, "attach after a load");
	run_input(&h, again, "A\n", 2);
	ok(host_until(&h, again->out[0].len == 6) && strcmp(again->out[0].p, "got A\n") == 0 &&
		   again->first[0] == 4,
	   "it goes on where it was, in both directions");
	host_reload(&h, 2, true, M3);
	run_free(&h, again);
	ok(host_reloaded(&h, 2, M3) && h.readies == 3,
	   "the same generation again is answered again");
	again = host_attach(&h, "pheld", 0, 0);
	ok(host_until(&h, again->opened && again->out[0].len == 10) && again->off_in == 2,
	   "OFF_IN is what was taken, old output is still there");
	again->in_end = again->off_in;
	run_input(&h, again, "B\n", 2);
	ok(host_until(&h, again->exited) && again->status == 0 &&
		   strcmp(again->out[0].p, "one\ngot A\nand B\n") == 0,
	   "the end comes to the one attached");
	host_stop(&h);
}

/* The marker that WELCOME handed out, in pieces of a few bytes and after a near miss. */
static bool piecemeal(struct host *h, char *marker, uint64_t g)
{
	char next[SP_G_MARKER_LEN + 1];

	sp_buf_put(&h->out, marker, SP_G_MARKER_LEN - 1);
	host_quiet(h, 20);
	h->synced = false;
	for (size_t i = 0, n; i < SP_G_MARKER_LEN; i += n) {
		n = SP_G_MARKER_LEN - i < g - 2 ? SP_G_MARKER_LEN - i : g - 2;
		sp_buf_put(&h->out, marker + i, n);
		host_quiet(h, 10);
	}
	if (!host_until(h, h->synced && h->hellos == g))
		return false;
	memcpy(next, marker, sizeof next);
	next[SP_G_MARKER_LEN - 1] = (char)('A' + g);
	host_welcome(h, g, true, next);
	h->out.off += SP_G_MARKER_LEN; /* the marker went already */
	h->out.len -= SP_G_MARKER_LEN;
	memcpy(marker, next, sizeof next);
	return host_until(h, h->ready_generation == g);
}

static void marker_in_pieces(void)
{
	char marker[] = "aabaabaaabaabaax"; /* overlaps itself */
	struct host h;
	bool good = true;

	ok(host_boot(&h, NULL), "boot");
	host_reload(&h, 2, true, marker);
	ok(host_reloaded(&h, 2, marker), "a marker that overlaps itself is set");
	for (uint64_t g = 3; g < 8; g++)
		good = good && piecemeal(&h, marker, g);
	ok(good, "found in pieces of any size, after a near miss");
	host_stop(&h);
}

static void put_raw(struct host *h, uint32_t len, uint8_t type, uint8_t stream, uint16_t zero,
		    uint32_t chan, const void *p, size_t n)
{
	unsigned char head[SP_G_HEADER] = { (unsigned char)len,
					    (unsigned char)(len >> 8),
					    (unsigned char)(len >> 16),
					    (unsigned char)(len >> 24),
					    type,
					    stream,
					    (unsigned char)zero,
					    0,
					    (unsigned char)chan,
					    (unsigned char)(chan >> 8) };

	sp_buf_put(&h->out, head, sizeof head);
	sp_buf_put(&h->out, p, n);
}

static bool lives(struct host *h)
{
	h->metrics = false;
	sp_frame_put(&h->out, 0, SP_G_METRICS, 0, NULL, 0);
	return host_until(h, h->metrics) && h->mem_total > 0;
}

static void malformed(void)
{
	static const struct how input = { .input = true };
	struct host h;
	struct run *r;

	ok(host_boot(&h, NULL), "boot");
	for (int type = 0; type < 256; type++) {
		put_raw(&h, 3, (uint8_t)type, 0, 0, 0, "\1\2\3", 3);
		put_raw(&h, 3, (uint8_t)type, 0, 0, 60000, "\1\2\3", 3);
		put_raw(&h, 0, (uint8_t)type, 9, 0, 60001, "", 0);
		host_step(&h, 0);
	}
	ok(lives(&h), "frames of every type with nonsense in them");
	r = host_exec(&h, &input, ARGV("cat"));
	ok(host_until(&h, r->opened), "a session");
	put_raw(&h, 4, SP_G_DATA, 0, 0, r->chan, "abcd", 4);
	ok(host_until(&h, r->failed) && r->code == SP_USAGE, "input without an offset");
	run_free(&h, r);
	r = host_exec(&h, &input, ARGV("cat"));
	r->in_end = 77;
	run_input(&h, r, "x", 1);
	ok(host_until(&h, r->failed) && r->code == SP_USAGE, "input at the wrong offset");
	run_free(&h, r);
	r = host_exec(&h, &input, ARGV("cat"));
	put_raw(&h, 5, SP_G_EXEC, 0, 0, r->chan, "\xc\0\0\0\0", 5);
	ok(host_until(&h, r->failed), "a second request on an open session");
	run_free(&h, r);
	r = host_exec(&h, &input, ARGV("cat"));
	put_raw(&h, 0, 200, 0, 0, r->chan, "", 0);
	ok(host_until(&h, r->failed), "a type that no session knows");
	run_free(&h, r);
	ok(lives(&h), "each lost its session alone");
	put_raw(&h, SP_G_PAYLOAD + 1, SP_G_METRICS, 0, 0, 0, "", 0);
	host_quiet(&h, 50);
	host_reload(&h, 2, true, M2);
	ok(host_reloaded(&h, 2, M2) && lives(&h), "a frame too long: the next marker heals it");
	put_raw(&h, 0, SP_G_METRICS, 0, 1, 0, "", 0);
	host_quiet(&h, 50);
	host_reload(&h, 3, true, M3);
	ok(host_reloaded(&h, 3, M3) && lives(&h), "reserved bits: as well");
	host_stop(&h);
}

static void write_script(const char *dir, const char *name, const char *text, mode_t mode)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	f = fopen(path, "we");
	if (!f || fputs(text, f) < 0 || fclose(f) || chmod(path, mode))
		abort();
}

static void hooks(void)
{
	char dir[] = "/tmp/space-hooks-XXXXXX", path[128], line[256] = "", command[64];
	struct host h;
	FILE *f;

	if (!mkdtemp(dir))
		abort();
	snprintf(path, sizeof path, "%s/log", dir);
	write_script(dir, "20-second", "#!/bin/sh\necho second >>${0%/*}/log\nexit 1\n", 0755);
	write_script(dir, "25-c", "#!/bin/sh\necho c >>${0%/*}/log\n", 0755);
	write_script(dir, "17-a", "#!/bin/sh\necho a >>${0%/*}/log\n", 0755);
	write_script(dir, "19-b", "#!/bin/sh\necho b >>${0%/*}/log\n", 0755);
	write_script(dir, "10-first",
		     "#!/bin/sh\necho $SPACE_SAME $SPACE_GENERATION $SPACE_ID $SPACE_HOSTNAME "
		     ">>${0%/*}/log\n",
		     0755);
	write_script(dir, "15-not-executable", "#!/bin/sh\necho no >>${0%/*}/log\n", 0644);
	write_script(dir, ".hidden", "#!/bin/sh\necho no >>${0%/*}/log\n", 0755);
	write_script(dir, "30-no-program", "#!/no/such/thing\n", 0755);
	ok(host_boot(&h, dir), "boot");
	ok(h.ready_failed == 2, "hooks that failed are counted");
	host_reload(&h, 1, false, M2);
	ok(host_reloaded(&h, 1, M2) && h.ready_failed == 2 && h.readies == 2,
	   "the same generation again: told again");
	host_reload(&h, 2, true, M3);
	ok(host_reloaded(&h, 2, M3), "a resume");
	f = fopen(path, "re");
	for (int i = 0; f && i < 10; i++)
		if (!fgets(line + strlen(line), (int)(sizeof line - strlen(line)), f))
			break;
	if (f)
		fclose(f);
	is_str(line,
	       "0 1 s0123456789abcdefghij never-set\na\nb\nsecond\nc\n"
	       "1 2 s0123456789abcdefghij never-set\na\nb\nsecond\nc\n",
	       "in order, once a generation, told what happened");
	write_script(dir, "40-hangs", "#!/bin/sh\nsleep 60\n", 0755);
	host_reload(&h, 3, true, M2);
	host_quiet(&h, 300);
	ok(h.ready_generation == 2 && h.hellos == 4, "a hook that hangs holds READY up");
	memcpy(h.marker, M2, SP_G_MARKER_LEN);
	unlink(strcat(strcpy(path, dir), "/40-hangs"));
	host_reload(&h, 4, true, M3);
	ok(host_reloaded(&h, 4, M3), "but not the next load");
	host_stop(&h);
	snprintf(command, sizeof command, "rm -rf %s", dir);
	ok(system(command) == 0, "cleaned up");
}

static void freezing(void)
{
	unsigned char mem[16];
	struct sp_fields f;
	struct host h;

	ok(host_boot(&h, NULL), "boot");
	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u64(&f, SP_T_VALUE, 200);
	sp_frame_put(&h.out, 0, SP_G_FREEZE, 0, mem, (uint32_t)f.len);
	ok(host_until(&h, h.frozen >= 0) && h.frozen == 0, "FROZEN");
	sp_frame_put(&h.out, 0, SP_G_FREEZE, 0, mem, (uint32_t)f.len);
	ok(host_until(&h, h.frozen > 0) && h.frozen == EBUSY, "not twice");
	sp_frame_put(&h.out, 0, SP_G_THAW, 0, NULL, 0);
	ok(host_until(&h, h.thawed >= 0) && h.thawed == 0, "THAWED");
	h.frozen = -1;
	sp_frame_put(&h.out, 0, SP_G_FREEZE, 0, mem, (uint32_t)f.len);
	ok(host_until(&h, h.frozen == 0), "frozen again");
	for (int i = 0; i < 100; i++) {
		h.frozen = -1;
		host_quiet(&h, 50);
		sp_frame_put(&h.out, 0, SP_G_FREEZE, 0, mem, (uint32_t)f.len);
		if (host_until(&h, h.frozen >= 0) && h.frozen == 0)
			break;
	}
	ok(h.frozen == 0, "nobody thawed it: it did by itself");
	ok(lives(&h) && host_stop(&h) == 0, "and the agent goes on");
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	greeting();
	reload();
	marker_in_pieces();
	malformed();
	hooks();
	freezing();
	return tap_done();
}
