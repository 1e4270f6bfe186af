/* SPDX-License-Identifier: Apache-2.0 */
/* The guest agent's channel, processes and streams, from outside. */
#include "agent_host.h"
#include "tap.h"

#define M2 "second-marker-xy"
#define M3 "third-marker-123"
#define MEG (1u << 20)

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
	struct run *r, *again;
	static const struct how held = { .proc = "pheld", .input = true };
	unsigned char cut[] = { 0xff, 0, 0, 0, SP_G_DATA, 0, 0, 0, 9, 0, 0, 0, 'x', 'y' };

	ok(host_boot(&h, NULL), "boot");
	r = host_exec(&h, &held, SH("echo one; read x; echo got $x; read y; echo and $y"));
	ok(host_until(&h, r->out[0].len == 4), "a process says something");
	sp_buf_put(&h.out, cut, sizeof cut);
	host_quiet(&h, 200);
	/* Half of a frame is on its way when the machine is saved; the marker comes in two. */
	host_reload(&h, 2, true, M2);
	run_free(&h, r);
	ok(host_reloaded(&h, 2, M2), "a marker in the middle of a frame is found");
	ok(h.hellos == 2 && h.hello_generation == 1, "HELLO tells the generation acknowledged last");
	again = host_attach(&h, "pheld", 4, 0);
	ok(host_until(&h, again->opened) && again->off_in == 0, "attach after a load");
	run_input(&h, again, "A\n", 2);
	ok(host_until(&h, again->out[0].len == 6) && strcmp(again->out[0].p, "got A\n") == 0 &&
		   again->first[0] == 4,
	   "it goes on where it was, in both directions");
	host_reload(&h, 2, true, M3);
	run_free(&h, again);
	ok(host_reloaded(&h, 2, M3) && h.readies == 3, "the same generation again is answered again");
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

static void exec_simple(void)
{
	static const struct how plain, typed = { .cwd = "/usr", .env = "FOO=b r" };
	struct host h;
	struct run *r;

	ok(host_boot(&h, NULL), "boot");
	r = host_exec(&h, &plain, ARGV("true"));
	ok(host_until(&h, r->exited) && r->status == 0 && r->eof[0] && r->eof[1], "true");
	run_close(&h, r);
	r = host_exec(&h, &plain, ARGV("sh", "-c", "exit 255"));
	ok(host_until(&h, r->exited) && WEXITSTATUS(r->status) == 255, "status 255");
	run_close(&h, r);
	r = host_exec(&h, &plain, SH("kill -9 $$"));
	ok(host_until(&h, r->exited) && WIFSIGNALED(r->status) && WTERMSIG(r->status) == 9,
	   "killed by a signal");
	run_close(&h, r);
	r = host_exec(&h, &typed, SH("echo $PWD $FOO; echo $PATH >&2; test -n \"$HOME$USER$SHELL\""));
	ok(host_until(&h, r->exited) && r->status == 0, "environment is set");
	is_str(r->out[0].p, "/usr b r\n", "folder and variable");
	is_str(r->out[1].p, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n", "PATH");
	run_close(&h, r);
	r = host_exec(&h, &plain, SH("ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status"));
	ok(host_until(&h, r->exited), "descriptors");
	ok(strcmp(r->out[0].p, "0\n1\n2\n3\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n") == 0,
	   "nothing of the agent's is inherited");
	run_close(&h, r);
	r = host_exec(&h, &plain, ARGV("cat"));
	ok(host_until(&h, r->exited) && r->status == 0, "without input, input is empty");
	run_close(&h, r);
	ok(!h.broken && host_stop(&h) == 0, "nothing else was said");
}

static void exec_refused(void)
{
	static const struct how plain, nobody = { .user = "no-such-user" },
				       nowhere = { .cwd = "/no/such/folder" },
				       bad_id = { .proc = "../x" };
	struct host h;
	struct run *r;

	ok(host_boot(&h, NULL), "boot");
	r = host_exec(&h, &plain, ARGV("no-such-program-here"));
	ok(host_until(&h, r->exited) && r->status == 127 << 8, "no such program: 127");
	is_str(r->out[1].p, "space-guest: cannot run 'no-such-program-here': No such file or directory\n",
	       "and a line that says so");
	run_close(&h, r);
	r = host_exec(&h, &plain, ARGV("/etc/passwd"));
	ok(host_until(&h, r->exited) && r->status == 126 << 8, "not executable: 126");
	run_close(&h, r);
	r = host_exec(&h, &nobody, ARGV("true"));
	ok(host_until(&h, r->exited) && r->status == 126 << 8 && strstr(r->out[1].p, "no-such-user"),
	   "no such user: 126");
	run_close(&h, r);
	r = host_exec(&h, &nowhere, ARGV("true"));
	ok(host_until(&h, r->exited) && r->status == 126 << 8 && strstr(r->out[1].p, "/no/such"),
	   "no such folder: 126");
	run_close(&h, r);
	r = host_exec(&h, &bad_id, ARGV("true"));
	ok(host_until(&h, r->failed) && r->code == SP_USAGE, "an id that is none");
	run_free(&h, r);
	host_stop(&h);
}

static void users(void)
{
	static const struct how nobody = { .user = "nobody" }, both = { .user = "nobody:daemon" },
				       numbers = { .user = "12345:54321" };
	struct host h;
	struct run *r;

	if (geteuid() != 0) {
		ok(true, "users # SKIP not root");
		return;
	}
	ok(host_boot(&h, NULL), "boot");
	r = host_exec(&h, &nobody, SH("id -un; id -gn; id -Gn; echo $HOME $USER $LOGNAME"));
	host_until(&h, r->exited);
	is_str(r->out[0].p, "nobody\nnogroup\nnogroup\n/nonexistent nobody nobody\n", "by name");
	run_close(&h, r);
	r = host_exec(&h, &both, SH("id -un; id -gn; id -Gn"));
	host_until(&h, r->exited);
	is_str(r->out[0].p, "nobody\ndaemon\ndaemon\n", "name and group");
	run_close(&h, r);
	r = host_exec(&h, &numbers, SH("id -u; id -g; id -G; echo $HOME"));
	host_until(&h, r->exited);
	is_str(r->out[0].p, "12345\n54321\n54321\n/\n", "numbers");
	run_close(&h, r);
	host_stop(&h);
}

static void streams(void)
{
	static const struct how input = { .input = true };
	unsigned char *data = sp_xmalloc(10 * MEG);
	uint64_t x = 88172645463325252ull;
	struct host h;
	struct run *r;
	int64_t end;

	for (size_t i = 0; i < 10 * MEG / 8; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		memcpy(data + 8 * i, &x, 8);
	}
	ok(host_boot(&h, NULL), "boot");
	r = host_exec(&h, &input, ARGV("cat"));
	end = now_ms() + WAIT_MS;
	while (r->in_end < 10 * MEG && now_ms() < end) {
		size_t n = 10 * MEG - r->in_end < 30000 ? 10 * MEG - r->in_end : 30000;

		if (r->in_end + n - r->in_acked <= SP_G_WINDOW && sp_buf_space(&h.out) > MEG)
			run_input(&h, r, data + r->in_end, n);
		else
			host_step(&h, 100);
	}
	run_input_eof(&h, r);
	ok(host_until(&h, r->exited) && r->status == 0, "10 MB go through cat");
	ok(r->out[0].len == 10 * MEG && fnv(r->out[0].p, r->out[0].len) == fnv(data, 10 * MEG),
	   "whole, both ways");
	ok(!r->torn && r->got[0] == 10 * MEG, "with offsets that fit");
	run_close(&h, r);
	free(data);
	host_stop(&h);
}

static void windows(void)
{
	static const struct how quiet = { .no_acks = true }, input = { .input = true };
	static char big[65000];
	struct host h;
	struct run *r, *other;

	ok(host_boot(&h, NULL), "boot");
	r = host_exec(&h, &quiet, ARGV("head", "-c", "1000000", "/dev/zero"));
	host_quiet(&h, 300);
	ok(r->got[0] == SP_G_WINDOW && !r->exited, "output stops at the window");
	other = host_exec(&h, &input, SH("sleep 0.3; exec cat >/dev/null"));
	ok(host_until(&h, other->opened), "others go on");
	sp_frame_put_u64(&h.out, r->chan, SP_G_ACK, 1, 100);
	host_quiet(&h, 300);
	ok(r->got[0] == SP_G_WINDOW + 100, "an acknowledgement opens it just as far");
	r->no_acks = false;
	sp_frame_put_u64(&h.out, r->chan, SP_G_ACK, 1, r->got[0]);
	ok(host_until(&h, r->exited) && r->got[0] == 1000000 && !r->torn, "then all comes");
	for (int i = 0; i < 4; i++)
		run_input(&h, other, big, sizeof big);
	ok(host_until(&h, other->in_acked == 4 * sizeof big), "input is acknowledged as it is read");
	sp_frame_put_u64(&h.out, other->chan, SP_G_ACK, 1, 12345);
	ok(host_until(&h, other->failed) && other->code == SP_USAGE,
	   "an acknowledgement of what was not sent ends the session");
	run_free(&h, other);
	other = host_exec(&h, &input, ARGV("sleep", "5"));
	for (int i = 0; i < 8; i++)
		run_input(&h, other, big, sizeof big);
	ok(host_until(&h, other->failed), "input beyond the window ends the session");
	run_free(&h, other);
	r = host_exec(&h, &input, SH("exec <&-; sleep 0.2; echo done"));
	for (int i = 0; i < 3; i++)
		run_input(&h, r, big, sizeof big);
	ok(host_until(&h, r->exited) && r->status == 0, "input that nobody reads does no harm");
	host_stop(&h);
}

static void detached(void)
{
	static const struct how d = { .proc = "pdetached", .detach = true };
	struct host h;
	struct run *r;

	ok(host_boot(&h, NULL), "boot");
	r = host_exec(&h, &d, SH("echo begin; head -c 600000 /dev/zero; echo end; exit 3"));
	ok(host_until(&h, r->ended) && r->opened && strcmp(r->proc, "pdetached") == 0 && r->pid,
	   "begun detached: OPENED, END");
	run_free(&h, r);
	r = host_exec(&h, &d, ARGV("true"));
	ok(host_until(&h, r->failed) && r->code == SP_CONFLICT, "the same id again is a conflict");
	run_free(&h, r);
	ok(proc_ends(&h, "pdetached"), "it ends by itself, its output dropped");
	r = host_attach(&h, "pdetached", 0, 0);
	ok(host_until(&h, r->exited) && WEXITSTATUS(r->status) == 3, "attach later tells the end");
	ok(r->first[0] == 600010 - SP_G_WINDOW && r->got[0] == 600010 &&
		   strcmp(r->out[0].p + SP_G_WINDOW - 4, "end\n") == 0,
	   "the oldest bytes are a gap, the newest are there");
	run_close(&h, r);
	r = host_attach(&h, "pdetached", 0, 0);
	ok(host_until(&h, r->failed) && r->code == SP_ABSENT, "an end that was told is forgotten");
	host_stop(&h);
}

static void branch(void)
{
	static const struct how quiet = { .proc = "pbranch", .no_acks = true };
	struct host h;
	struct run *r;

	ok(host_boot(&h, NULL), "boot");
	r = host_exec(&h, &quiet, SH("head -c 700000 /dev/zero; echo end"));
	host_quiet(&h, 300);
	ok(r->got[0] == SP_G_WINDOW, "the ring is full");
	host_reload(&h, 2, true, M2);
	run_free(&h, r);
	ok(host_reloaded(&h, 2, M2), "a resume");
	host_quiet(&h, 200);
	r = host_attach(&h, "pbranch", SP_G_WINDOW - 10, 0);
	r->no_acks = true;
	host_quiet(&h, 300);
	ok(r->first[0] == SP_G_WINDOW - 10, "loses nothing");
	host_reload(&h, 3, false, M3);
	run_free(&h, r);
	ok(host_reloaded(&h, 3, M3), "a branch");
	ok(proc_ends(&h, "pbranch"), "nobody holds it up there");
	r = host_attach(&h, "pbranch", 0, 0);
	ok(host_until(&h, r->exited) && r->first[0] == 700004 - SP_G_WINDOW && !r->torn,
	   "goes on detached");
	host_stop(&h);
}

static void attach_twice(void)
{
	static const struct how d = { .proc = "ptwice", .input = true };
	struct host h;
	struct run *r, *other;

	ok(host_boot(&h, NULL), "boot");
	r = host_exec(&h, &d, ARGV("cat"));
	ok(host_until(&h, r->opened), "begun");
	other = host_attach(&h, "ptwice", 0, 0);
	ok(host_until(&h, other->opened && r->failed) && r->code == SP_CONFLICT,
	   "the one who attaches last has it");
	run_input(&h, other, "x", 1);
	run_input_eof(&h, other);
	ok(host_until(&h, other->exited) && strcmp(other->out[0].p, "x") == 0, "and its end");
	host_stop(&h);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	greeting();
	reload();
	marker_in_pieces();
	exec_simple();
	exec_refused();
	users();
	streams();
	windows();
	detached();
	branch();
	attach_twice();
	return tap_done();
}
