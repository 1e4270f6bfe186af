/* SPDX-License-Identifier: Apache-2.0 */
/* The guest agent's processes and their streams, from outside. */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "agent_host.h"
#include "tap.h"

#define M2 "second-marker-xy"
#define M3 "third-marker-123"
#define MEG (1u << 20)

static void exec_simple(void)
{
	unsigned long long blocked = 1, ignored = 1;
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
	r = host_exec(&h, &typed,
		      SH("echo $PWD $FOO; echo $PATH >&2; test -n \"$HOME$USER$SHELL\""));
	ok(host_until(&h, r->exited) && r->status == 0, "environment is set");
	is_str(r->out[0].p, "/usr b r\n", "folder and variable");
	is_str(r->out[1].p, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n",
	       "PATH");
	run_close(&h, r);
	r = host_exec(&h, &plain, ARGV("ls", "/proc/self/fd"));
	ok(host_until(&h, r->exited) && strcmp(r->out[0].p, "0\n1\n2\n3\n") == 0,
	   "no descriptor of the agent's is inherited");
	run_close(&h, r);
	r = host_exec(&h, &plain, ARGV("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"));
	host_until(&h, r->exited);
	/* 32 and 33 are the C library's own and stay as whoever started the test left them */
	ok(sscanf(r->out[0].p, "SigBlk: %llx SigIgn: %llx", &blocked, &ignored) == 2 && !blocked &&
		   !(ignored & ~0x180000000ULL),
	   "nor how it takes signals");
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
	is_str(r->out[1].p,
	       "space-guest: cannot run 'no-such-program-here': No such file or directory\n",
	       "and a line that says so");
	run_close(&h, r);
	r = host_exec(&h, &plain, ARGV("/etc/passwd"));
	ok(host_until(&h, r->exited) && r->status == 126 << 8, "not executable: 126");
	run_close(&h, r);
	r = host_exec(&h, &nobody, ARGV("true"));
	ok(host_until(&h, r->exited) && r->status == 126 << 8 &&
		   strstr(r->out[1].p, "no-such-user"),
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
	ok(host_until(&h, other->in_acked == 4 * sizeof big),
	   "input is acknowledged as it is read");
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

static void terminal(void)
{
	static const struct how tty = { .tty = true, .input = true };
	unsigned char mem[32];
	struct sp_fields f;
	struct host h;
	struct run *r;

	ok(host_boot(&h, NULL), "boot");
	r = host_exec(&h, &tty,
		      SH("test -t 0 && test -t 2 && stty size; echo $TERM; read x; "
			 "stty size; trap 'echo int; exit 9' INT; while :; do sleep 0.1; done"));
	ok(host_until(&h, r->out[0].len >= 14), "a terminal");
	is_str(r->out[0].p, "24 80\r\nxterm\r\n", "of a size, with a type");
	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u32(&f, SP_T_ROWS, 50);
	sp_fields_add_u32(&f, SP_T_COLS, 132);
	sp_frame_put(&h.out, r->chan, SP_G_RESIZE, 0, mem, (uint32_t)f.len);
	run_input(&h, r, "go\n", 3);
	ok(host_until(&h, strstr(r->out[0].p, "50 132\r\n")), "RESIZE");
	host_quiet(&h, 300);
	run_input(&h, r, "\3", 1);
	ok(host_until(&h, r->exited) && WEXITSTATUS(r->status) == 9 &&
		   strstr(r->out[0].p, "^Cint\r\n"),
	   "control-C is a signal");
	ok(r->eof[0] && r->eof[1] && r->got[1] == 0, "one stream, two ends");
	run_close(&h, r);
	r = host_exec(&h, &tty, ARGV("cat"));
	run_input(&h, r, "line\n", 5);
	run_input_eof(&h, r);
	ok(host_until(&h, r->exited) && r->status == 0 &&
		   strcmp(r->out[0].p, "line\r\nline\r\n") == 0,
	   "the end of input is one of the terminal");
	run_close(&h, r);
	r = host_exec(&h, &tty, SH("setsid sleep 5 & seq 1 5000"));
	ok(host_until(&h, r->exited) && strstr(r->out[0].p, "\r\n5000\r\n") &&
		   r->out[0].len == 23893 + 5000,
	   "all of it comes, whoever keeps it open");
	run_close(&h, r);
	r = host_exec(&h, &tty, SH("set -m; sleep 20; echo after $?"));
	host_quiet(&h, 300);
	run_signal(&h, r, SIGTERM);
	ok(host_until(&h, r->exited) && strstr(r->out[0].p, "after 143\r\n"),
	   "SIGNAL goes to the group in the foreground");
	host_stop(&h);
}

static int kill_proc(struct host *h, const char *proc, int signal)
{
	unsigned char mem[128];
	struct sp_fields f;
	struct run *r;
	int code;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_str(&f, SP_T_PROC, proc);
	sp_fields_add_u32(&f, SP_T_SIGNAL, (uint32_t)signal);
	r = host_open(h, SP_G_KILL, &f);
	host_until(h, run_over(r));
	code = r->ended ? 0 : r->failed ? r->code : -1;
	run_free(h, r);
	return code;
}

static void killing(void)
{
	static const struct how d = { .proc = "pkill", .detach = true }, named = { .proc = "psig" };
	struct host h;
	struct run *r;
	unsigned n;
	pid_t child = 0;

	ok(host_boot(&h, NULL), "boot");
	r = host_exec(&h, &d, SH("sleep 50 & echo $!; sleep 60; :"));
	ok(host_until(&h, r->ended), "begun");
	run_free(&h, r);
	r = host_attach(&h, "pkill", 0, 0);
	ok(host_until(&h, strchr(r->out[0].p, '\n')) && (child = atoi(r->out[0].p)) > 1,
	   "with a child");
	run_close(&h, r);
	ok(proc_state(&h, "pkill", &n) == 'r' && n == 1, "PS shows it running");
	ok(kill_proc(&h, "pkill", SIGTERM) == 0 && proc_ends(&h, "pkill"), "KILL ends it");
	for (int i = 0; i < 200 && kill(child, 0) == 0; i++)
		host_step(&h, 10);
	ok(kill(child, 0) < 0, "and its child");
	ok(kill_proc(&h, "pkill", SIGTERM) == 0, "once more is done already");
	ok(kill_proc(&h, "pnone", SIGTERM) == SP_ABSENT, "no such process");
	ok(kill_proc(&h, "pkill", 1000) == SP_USAGE, "no such signal");
	r = host_attach(&h, "pkill", 0, 0);
	ok(host_until(&h, r->exited) && WTERMSIG(r->status) == SIGTERM, "its end is kept");
	run_close(&h, r);
	ok(proc_state(&h, "pkill", &n) == 0 && n == 0, "until it was told");
	r = host_exec(&h, &named,
		      SH("trap 'echo usr; exit 4' USR1; echo up; while :; do sleep 0.1; done"));
	host_until(&h, r->out[0].len == 3);
	run_signal(&h, r, SIGUSR1);
	ok(host_until(&h, r->exited) && WEXITSTATUS(r->status) == 4, "SIGNAL within a session");
	run_close(&h, r);
	host_stop(&h);
}

static void endings(void)
{
	static const struct how plain;
	struct host h;
	struct run *r;
	int64_t begin;
	unsigned n;

	ok(host_boot(&h, NULL), "boot");
	begin = now_ms();
	r = host_exec(&h, &plain, SH("sleep 10 & head -c 40000 /dev/zero; echo last >&2"));
	ok(host_until(&h, r->exited) && r->got[0] == 40000 && r->got[1] == 5,
	   "what the pipes held comes before EXIT");
	ok(now_ms() - begin < 8000, "a grandchild that holds them does not matter");
	run_close(&h, r);
	r = host_exec(&h, &plain, SH("yes & sleep 0.1"));
	ok(host_until(&h, r->exited), "nor one that never stops writing");
	run_close(&h, r);
	r = host_exec(&h, &plain, SH("exec >&- 2>&-; sleep 0.3; exit 7"));
	ok(host_until(&h, r->eof[0] && r->eof[1]) && !r->exited, "EOF when it closes its outputs");
	ok(host_until(&h, r->exited) && WEXITSTATUS(r->status) == 7, "EXIT when it ends");
	run_close(&h, r);
	for (int i = 0; i < 300; i++) {
		struct how d = { .detach = true };
		char id[16];

		snprintf(id, sizeof id, "pmany%d", i);
		d.proc = id;
		r = host_exec(&h, &d, ARGV("true"));
		host_until(&h, run_over(r));
		run_free(&h, r);
		if (i % 100 == 99)
			proc_ends(&h, id);
	}
	ok(proc_state(&h, "pmany0", &n) == 0 && n == SP_G_PROCS &&
		   proc_state(&h, "pmany299", &n) == 'x',
	   "the oldest of too many are forgotten");
	host_stop(&h);
}

static int listen_somewhere(uint16_t *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)&at, &len))
		abort();
	*port = ntohs(at.sin_port);
	return fd;
}

static struct run *dial(struct host *h, uint64_t port)
{
	unsigned char mem[32];
	struct sp_fields f;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_u64(&f, SP_T_VALUE, port);
	return host_open(h, SP_G_DIAL, &f);
}

static void dialling(void)
{
	struct host h;
	struct run *r;
	char text[16] = "";
	uint16_t port = 0;
	int fd = listen_somewhere(&port), c;

	ok(host_boot(&h, NULL), "boot");
	r = dial(&h, port);
	run_input(&h, r, "hello", 5);
	run_input_eof(&h, r);
	ok(host_until(&h, r->opened), "DIAL");
	c = accept(fd, NULL, NULL);
	host_until(&h, r->in_acked == 5);
	ok(recv(c, text, 5, MSG_WAITALL) == 5 && strcmp(text, "hello") == 0 &&
		   recv(c, text, 1, 0) == 0,
	   "bytes and their end go in");
	ok(send(c, "world", 5, 0) == 5 && close(c) == 0 && host_until(&h, r->ended) && r->eof[0],
	   "and come out");
	is_str(r->out[0].p, "world", "whole");
	run_free(&h, r);
	close(fd);
	r = dial(&h, port);
	ok(host_until(&h, r->failed) && r->code == SP_ABSENT, "nobody listens");
	run_free(&h, r);
	r = dial(&h, 65536);
	ok(host_until(&h, r->failed) && r->code == SP_USAGE, "no port");
	host_stop(&h);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	exec_simple();
	exec_refused();
	users();
	streams();
	windows();
	detached();
	branch();
	attach_twice();
	terminal();
	killing();
	endings();
	dialling();
	return tap_done();
}
