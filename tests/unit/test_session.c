/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions with the real agent and the real mux: processes that are run, attached to, signalled,
 * and that outlive pauses. */
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>

#include "guest_world.h"
#include "sys/clock.h"
#include "tap.h"

static struct world w;

/* A client in a process of its own, its descriptors in our hands. */
struct client {
	pid_t pid;
	int in, out, err, result;
};

struct result {
	int rc;
	struct sp_exec_end end;
	struct sp_err e;
};

static const char *const *argv_sh(const char *script)
{
	static const char *argv[4];

	argv[0] = "sh";
	argv[1] = "-c";
	argv[2] = script;
	return argv;
}

static struct client client_fds(const struct sp_exec *x, int in, int out, int err)
{
	struct client c = { .in = -1, .out = -1, .err = -1 };
	int result[2];

	assert(pipe2(result, O_CLOEXEC) == 0);
	c.pid = fork();
	if (!c.pid) {
		struct sp_guest g = world_guest(&w);
		struct result r = { 0 };

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in, 0);
		dup2(out, 1);
		dup2(err, 2);
		for (int fd = 3; fd < 100; fd++)
			if (fd != result[1] && fd != w.api.roots.store && fd != w.api.roots.run &&
			    fd != g.dir)
				close(fd);
		r.rc = sp_exec_run(&g, x, &r.end, &r.e);
		assert(write(result[1], &r, sizeof r) == sizeof r);
		_exit(0);
	}
	close(result[1]);
	c.result = result[0];
	return c;
}

static struct client client(const struct sp_exec *x)
{
	int in[2], out[2], err[2];
	struct client c;

	assert(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
	       pipe2(err, O_CLOEXEC) == 0);
	c = client_fds(x, in[0], out[1], err[1]);
	close(in[0]);
	close(out[1]);
	close(err[1]);
	c.in = in[1];
	c.out = out[0];
	c.err = err[0];
	return c;
}

static struct result finish(struct client *c)
{
	struct result r = { .rc = -2 };

	if (read(c->result, &r, sizeof r) != sizeof r)
		r.rc = -2;
	waitpid(c->pid, NULL, 0);
	close(c->result);
	close(c->in);
	close(c->out);
	close(c->err);
	return r;
}

static char *slurp(int fd)
{
	static char text[2][4096];
	static int turn;
	char *t = text[turn++ % 2];
	ssize_t n = sp_fd_read(fd, t, sizeof text[0] - 1);

	t[n > 0 ? n : 0] = '\0';
	return t;
}

/* Reads until the text has come. */
static bool expect(int fd, const char *text)
{
	char buf[256] = "";
	size_t n = 0;

	while (n < sizeof buf - 1 && !strstr(buf, text)) {
		ssize_t k = read(fd, buf + n, 1);

		if (k <= 0)
			return false;
		buf[++n] = '\0';
	}
	return n < sizeof buf - 1;
}

static bool exited(const struct result *r, int code)
{
	if (r->rc < 0)
		printf("# %s\n", r->e.msg);
	return r->rc == 0 && r->end.how == SP_EXEC_EXITED && r->end.value == code;
}

static void say_lost(void *arg)
{
	(void)arg;
	assert(write(2, "lost\n", 5) == 5);
}

static struct sp_exec sh(const char *script)
{
	return (struct sp_exec){ .argv = argv_sh(script), .argc = 3, .lost = say_lost };
}

static void test_run(void)
{
	const char *env[] = { "C=3", "A=9" };
	struct sp_exec x = sh("echo out; echo err >&2; exit 7");
	struct client c = client(&x);
	struct result r;
	char *text;

	is_str(slurp(c.out), "out\n", "standard output");
	is_str(slurp(c.err), "err\n", "standard error, apart");
	r = finish(&c);
	ok(exited(&r, 7) && sp_exec_code(r.rc, &r.end) == 7, "exit code as it is");

	x = sh("kill -KILL $$");
	c = client(&x);
	r = finish(&c);
	ok(r.rc == 0 && r.end.how == SP_EXEC_SIGNALLED && r.end.value == SIGKILL &&
		   sp_exec_code(r.rc, &r.end) == 137,
	   "a signal is 128 and its number");

	x = (struct sp_exec){ .argv = (const char *const[]){ "/no/such" }, .argc = 1 };
	c = client(&x);
	text = slurp(c.err);
	ok(strstr(text, "/no/such"), "what cannot be run says so: %s", text);
	r = finish(&c);
	ok(exited(&r, 127), "and is 127");

	world_state(&w, "running",
		    "\"env\":[\"B=2\"],\"config\":{\"env\":[\"A=1\",\"B=1\"],\"workdir\":\"/usr\","
		    "\"entrypoint\":[\"sh\",\"-c\"],\"cmd\":[\"echo $A$B; pwd\"]}");
	x = (struct sp_exec){ 0 };
	c = client(&x);
	is_str(slurp(c.out), "12\n/usr\n", "no command: the image's, its variables, its folder");
	finish(&c);
	x = sh("echo $A$B$C; pwd");
	x.env = env;
	x.nenv = 2;
	x.cwd = "/";
	c = client(&x);
	is_str(slurp(c.out), "923\n/\n", "ours win over the sandbox's over the image's");
	finish(&c);
	world_state(&w, "running", NULL);
	x = (struct sp_exec){ 0 };
	c = client(&x);
	r = finish(&c);
	ok(r.rc < 0 && r.e.code == SP_USAGE, "no command at all: wrong use");
}

static void *feed(void *arg) /* 20 MB of a known sequence, in a process of its own */
{
	int fd = *(int *)arg;
	unsigned char buf[65536];

	for (uint32_t at = 0; at < 20u << 20; at += sizeof buf) {
		for (uint32_t i = 0; i < sizeof buf; i++)
			buf[i] = (unsigned char)((at + i) * 2654435761u >> 24);
		if (sp_fd_write(fd, buf, sizeof buf) < 0)
			_exit(1);
	}
	_exit(0);
}

static bool is_sequence(int fd, uint32_t *got)
{
	unsigned char buf[65536];
	bool good = true;
	ssize_t n;

	*got = 0;
	while ((n = read(fd, buf, sizeof buf)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			good &= buf[i] == (unsigned char)((*got + (uint32_t)i) * 2654435761u >> 24);
		*got += (uint32_t)n;
	}
	return good;
}

static void test_input(void)
{
	struct sp_exec x = sh("cat");
	struct client c = client(&x);
	struct result r;
	uint32_t got;
	int64_t ns;
	pid_t pid;

	is_str(slurp(c.out), "", "without input it gets an end of file at once");
	r = finish(&c);
	ok(exited(&r, 0), "and ends");
	x.input = true;
	ns = sp_clock_mono();
	c = client(&x);
	pid = fork();
	if (!pid)
		feed(&c.in);
	close(c.in);
	c.in = -1;
	ok(is_sequence(c.out, &got) && got == 20u << 20, "20 MB through cat and back, whole");
	ns = sp_clock_mono() - ns;
	printf("# %.0f MB/s each way\n", 20.0 * 1048576 / 1e6 / ((double)ns / 1e9));
	waitpid(pid, NULL, 0);
	r = finish(&c);
	ok(exited(&r, 0), "and ends with its input");
}

static void test_signals(void)
{
	struct sp_exec x = sh("trap 'echo term; exit 3' TERM; echo up; while :; do sleep 1; done");
	struct client c = client(&x);
	struct result r;

	expect(c.out, "up\n");
	kill(c.pid, SIGTERM);
	is_str(slurp(c.out), "term\n", "SIGTERM reaches the process");
	r = finish(&c);
	ok(exited(&r, 3), "which ends as it likes");

	x = sh("trap '' INT; echo up; while :; do sleep 1; done");
	c = client(&x);
	expect(c.out, "up\n");
	for (int i = 0; i < 3; i++) {
		kill(c.pid, SIGINT);
		usleep(20000); /* signals of one kind that are pending together are one */
	}
	r = finish(&c);
	ok(r.rc < 0 && strstr(r.e.msg, "goes on"), "three at once end the tool: %s", r.e.msg);

	x = sh("yes");
	c = client(&x);
	expect(c.out, "y\n");
	close(c.out);
	c.out = -1;
	r = finish(&c);
	ok(r.rc == 0 && r.end.how == SP_EXEC_SIGNALLED && r.end.value == SIGPIPE,
	   "a reader that leaves is a broken pipe to the process");
}

static int listed;
static struct sp_guest_proc last;

static void note(const struct sp_guest_proc *p, void *arg)
{
	if (strcmp(p->id, arg) != 0)
		return;
	listed++;
	last = *p;
	last.args = NULL;
}

static void test_detach(void)
{
	struct sp_exec x = sh("echo one; read x < gate; echo two; exit 5");
	struct sp_guest g = world_guest(&w);
	char proc[SP_ID_SIZE];
	struct client c;
	struct result r;
	struct sp_err e;
	int gate;

	x.detach = true;
	x.cwd = world_path(&w, "guest");
	assert(mkfifo(world_path(&w, "guest/gate"), 0600) == 0);
	c = client(&x);
	r = finish(&c);
	ok(r.rc == 0 && r.end.how == SP_EXEC_DETACHED && sp_id_is_valid(r.end.proc, SP_PROCESS),
	   "detached, with its id");
	memcpy(proc, r.end.proc, sizeof proc);
	ok(sp_guest_ps(&g, note, proc, &e) == 0 && listed == 1 && last.how == SP_EXEC_FAILED,
	   "it is listed, running");
	x = (struct sp_exec){ .attach = true };
	memcpy(x.proc, proc, sizeof proc);
	c = client(&x);
	ok(expect(c.out, "one\n"), "attached: what it wrote before");
	gate = open(world_path(&w, "guest/gate"), O_WRONLY);
	assert(write(gate, "go\n", 3) == 3);
	close(gate);
	is_str(slurp(c.out), "two\n", "and what it writes now");
	r = finish(&c);
	ok(exited(&r, 5), "and how it ended");
	ok(sp_guest_kill(&g, "p0123456789abcdefghij", SIGTERM, &e) < 0 && e.code == SP_ABSENT,
	   "no such process: absent");

	x = sh("echo old; sleep 100");
	x.detach = true;
	c = client(&x);
	r = finish(&c);
	x = (struct sp_exec){ .attach = true };
	memcpy(x.proc, r.end.proc, sizeof proc);
	c = client(&x);
	ok(expect(c.out, "old\n"), "attached to another");
	kill(c.pid, SIGKILL);
	finish(&c);
	x.from_now = true;
	c = client(&x);
	usleep(200000); /* nothing tells when it is attached */
	ok(sp_guest_kill(&g, x.proc, SIGTERM, &e) == 0, "killed");
	is_str(slurp(c.out), "", "attached from now on: nothing old");
	r = finish(&c);
	ok(r.rc == 0 && r.end.how == SP_EXEC_SIGNALLED && r.end.value == SIGTERM, "and its end");
	sp_json_free(&g.record);
	close(g.dir);
}

static void test_pause(void)
{
	struct sp_exec x = sh("echo one; read x; echo two$x; read y < gate; echo three; exit 4");
	struct client c;
	struct result r;
	static char slow[100000];
	int gate;

	x.input = true;
	x.cwd = world_path(&w, "guest");
	c = client(&x);
	ok(expect(c.out, "one\n"), "a process runs");
	world_pause(&w, "paused");
	assert(write(c.in, "abc\n", 4) == 4);
	world_resume(&w);
	ok(expect(c.out, "twoabc\n"), "paused and resumed: input written meanwhile reaches it");
	world_ticket(&w, true);
	world_kill(&w);
	world_state(&w, "paused", NULL);
	world_resume(&w);
	gate = open(world_path(&w, "guest/gate"), O_WRONLY);
	assert(write(gate, "go\n", 3) == 3);
	close(gate);
	is_str(slurp(c.out), "three\n", "a monitor killed in an operation: it goes on too");
	r = finish(&c);
	ok(exited(&r, 4), "with its exit code");

	x = sh("echo up; read y < gate; wc -c; echo end");
	x.input = true;
	x.cwd = world_path(&w, "guest");
	c = client(&x);
	expect(c.out, "up\n");
	/* More than a pipe holds, so that the end of it waits in the agent. */
	assert(sp_fd_write(c.in, slow, sizeof slow) == 0);
	close(c.in);
	c.in = -1;
	usleep(50000); /* nothing tells when the guest has the end of it */
	world_pause(&w, "paused");
	world_resume(&w);
	gate = open(world_path(&w, "guest/gate"), O_WRONLY);
	assert(write(gate, "go\n", 3) == 3);
	close(gate);
	is_str(slurp(c.out), "100000\nend\n",
	       "input that ended before the pause ends after it too");
	finish(&c);
}

static void test_pauses(void)
{
	struct sp_exec x = sh("cat");
	struct client c;
	struct result r;
	uint32_t got;
	pid_t pid, check;
	int status;

	x.input = true;
	c = client(&x);
	pid = fork();
	if (!pid)
		feed(&c.in);
	close(c.in);
	c.in = -1;
	check = fork();
	if (!check)
		_exit(is_sequence(c.out, &got) && got == 20u << 20 ? 0 : 1);
	for (int i = 0; i < 8; i++) {
		usleep(15000);
		world_pause(&w, "paused");
		world_resume(&w);
	}
	waitpid(pid, NULL, 0);
	ok(waitpid(check, &status, 0) == check && status == 0,
	   "20 MB each way across eight pauses, whole");
	r = finish(&c);
	ok(exited(&r, 0), "and its end");
}

/* Reads one whole frame of a client. */
static size_t take_frame(int fd, unsigned char *mem, size_t n)
{
	size_t len;

	assert(sp_fd_read(fd, mem, SP_G_HEADER) == SP_G_HEADER);
	len = mem[0] | (size_t)mem[1] << 8 | (size_t)mem[2] << 16;
	assert(len <= n - SP_G_HEADER);
	assert(sp_fd_read(fd, mem + SP_G_HEADER, len) == (ssize_t)len);
	return SP_G_HEADER + len;
}

/* The machine is paused between the request for a process and its answer. Whether the process was
 * begun or not, it runs once, and its client has its output. */
static void test_cut_request(bool begun)
{
	struct sp_exec x = sh("echo once; exit 3");
	unsigned char mem[4096];
	struct sp_err e;
	struct client c;
	struct result r;
	int dir, sock, fd;
	size_t n;

	world_pause(&w, "paused");
	dir = sp_fs_open_dir(w.api.roots.run, WORLD_ID, &e);
	sock = sp_sock_listen(dir, "guest", SOCK_STREAM, 0600, &e);
	assert(sock >= 0);
	world_state(&w, "running", NULL);
	c = client(&x);
	fd = accept(sock, NULL, NULL);
	n = take_frame(fd, mem, sizeof mem);
	world_ticket(&w, true);
	kill(c.pid, SIGSTOP);
	close(sock);
	close(fd);
	world_start(&w);
	if (begun) {
		unsigned char answer[SP_G_HEADER];

		fd = sp_sock_connect(dir, "guest", SOCK_STREAM, &e);
		assert(fd >= 0 && sp_fd_write(fd, mem, n) == 0);
		assert(sp_fd_read(fd, answer, sizeof answer) == sizeof answer);
		assert(answer[4] == SP_G_OPENED);
		close(fd);
	}
	close(dir);
	world_state(&w, "running", NULL);
	world_ticket(&w, false);
	kill(c.pid, SIGCONT);
	is_str(slurp(c.out), "once\n", "a request cut off, the process %s: it runs once",
	       begun ? "begun" : "not begun");
	r = finish(&c);
	ok(exited(&r, 3), "and its code comes");
}

static void test_ends(void)
{
	struct sp_exec x = sh("echo one; sleep 100");
	struct client c;
	struct result r;

	c = client(&x);
	expect(c.out, "one\n");
	world_kill(&w);
	r = finish(&c);
	ok(r.rc < 0 && strstr(r.e.msg, "died") && sp_exec_code(r.rc, &r.end) == 125,
	   "a monitor that died: %s", r.e.msg);
	world_start(&w);
	c = client(&x);
	expect(c.out, "one\n");
	world_pause(&w, "stopped");
	r = finish(&c);
	ok(r.rc < 0 && strstr(r.e.msg, "stopped"), "powered off: %s", r.e.msg);
	world_state(&w, "paused", NULL);
	c = client(&x);
	r = finish(&c);
	ok(r.rc < 0 && r.e.code == SP_CONFLICT && strstr(r.e.msg, "paused"), "paused: %s", r.e.msg);
	world_resume(&w);
	c = client(&x);
	expect(c.out, "one\n");
	world_pause(&w, "paused");
	ok(expect(c.err, "lost\n"), "a wait is told");
	kill(c.pid, SIGINT);
	r = finish(&c);
	ok(r.rc < 0 && strstr(r.e.msg, "interrupted"), "^C while it waits: %s", r.e.msg);
	world_resume(&w);
	c = client(&x);
	expect(c.out, "one\n");
	world_pause(&w, "paused");
	expect(c.err, "lost\n");
	assert(rename(world_path(&w, "store/sandboxes/" WORLD_ID),
		      world_path(&w, "store/sandboxes/.trash-x")) == 0);
	r = finish(&c);
	ok(r.rc < 0 && strstr(r.e.msg, "removed"), "removed while it waits: %s", r.e.msg);
	rename(world_path(&w, "store/sandboxes/.trash-x"),
	       world_path(&w, "store/sandboxes/" WORLD_ID));
	world_resume(&w);
}

static void test_tty(void)
{
	struct sp_exec x =
		sh("stty size; read l; echo got $l; stty -echo; read l; stty size; read l");
	struct winsize size = { .ws_row = 33, .ws_col = 101 };
	struct termios before = { 0 }, raw = { 0 }, after = { 0 };
	struct client c;
	struct result r;
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;

	grantpt(master);
	unlockpt(master);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	ioctl(master, TIOCSWINSZ, &size);
	tcgetattr(slave, &before);
	x.tty = x.input = true;
	c = client_fds(&x, slave, slave, slave);
	ok(expect(master, "33 101\r\n"), "a terminal of our size");
	tcgetattr(slave, &raw);
	ok(!(raw.c_lflag & (ICANON | ECHO | ISIG)), "ours is raw");
	assert(write(master, "hello\r", 6) == 6);
	ok(expect(master, "hello\r\ngot hello\r\n"), "the guest's echoes");
	size.ws_row = 50;
	ioctl(master, TIOCSWINSZ, &size);
	kill(c.pid, SIGWINCH);
	usleep(50000);
	assert(write(master, "\r", 1) == 1);
	ok(expect(master, "50 101"), "a new size reaches it");
	world_pause(&w, "paused");
	ok(expect(master, "lost"), "paused");
	tcgetattr(slave, &after);
	ok(memcmp(&before, &after, sizeof before) == 0, "while it waits ours is as before");
	world_resume(&w);
	do
		tcgetattr(slave, &after);
	while (memcmp(&raw, &after, sizeof raw) != 0);
	ok(true, "and raw again when it goes on");
	assert(write(master, "\r", 1) == 1);
	r = finish(&c);
	tcgetattr(slave, &after);
	ok(exited(&r, 0), "its end");
	ok(memcmp(&before, &after, sizeof before) == 0, "ours is as before");
	close(slave);
	close(master);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	alarm(120);
	if (!world_begin(&w)) {
		printf("1..0 # SKIP build/bin/space-guest is not built\n");
		world_end(&w);
		return 0;
	}
	world_start(&w);
	test_run();
	test_input();
	test_signals();
	test_detach();
	test_tty();
	test_ends();
	test_pause();
	test_pauses();
	test_cut_request(false);
	test_cut_request(true);
	world_end(&w);
	return tap_done();
}
