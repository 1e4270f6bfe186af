/* SPDX-License-Identifier: Apache-2.0 */
/* The baseline of `make bench`: the bare engine, without jail, monitor, journal or store, loads a
 * checkpoint in the way the engine's own table says, and the guest's agent is greeted.
 *
 *   bare MEM VMSTATE DISK META N      MEM and DISK: copies of the checkpoint's files, writable
 *
 * Prints N lines: ms from spawn to running, ms from spawn to the agent's READY. The command line is
 * the engine's (vmm/qemu.c) with these paths and without -sandbox.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/mux.h"
#include "net/tap.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "text/json.h"
#include "vmm/engine.h"

struct bench {
	struct sp_machine m;
	unsigned char marker[SP_G_MARKER_LEN];
	const char *mem, *state, *disk;
	int dir; /* a folder of our own, for sockets */
	uint64_t generation;
};

static int die(struct sp_err *e)
{
	fprintf(stderr, "bare: %s\n", e->msg);
	exit(1);
}

static void read_meta(const char *path, struct bench *b)
{
	struct sp_err e;
	sp_auto_str text = SP_STR_INIT;
	sp_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	sp_auto_json *meta = NULL;
	const struct sp_json *m;
	const char *hex;
	unsigned int i, v;

	if (fd < 0 || sp_fd_slurp(fd, 1 << 20, &text, &e) < 0)
		die(&e);
	meta = sp_json_parse(text.p, text.len, &e);
	if (!meta)
		die(&e);
	m = sp_json_get(meta, "machine");
	hex = sp_json_str(meta, "marker");
	if (!m || !hex || strlen(hex) != 2 * SP_G_MARKER_LEN)
		exit(2);
	snprintf(b->m.engine, sizeof b->m.engine, "qemu");
	snprintf(b->m.version, sizeof b->m.version, "%s", sp_json_str(m, "version"));
	snprintf(b->m.accel, sizeof b->m.accel, "%s", sp_json_str(m, "accel"));
	snprintf(b->m.cpu_model, sizeof b->m.cpu_model, "%s", sp_json_str(m, "cpu_model"));
	snprintf(b->m.machine, sizeof b->m.machine, "%s", sp_json_str(m, "machine"));
	b->m.cpus = (uint32_t)sp_json_i64(meta, "cpus", 1);
	b->m.memory = (uint64_t)sp_json_i64(meta, "memory", 0);
	for (i = 0; i < SP_G_MARKER_LEN; i++) {
		sscanf(hex + 2 * i, "%2x", &v);
		b->marker[i] = (unsigned char)v;
	}
}

/* The engine's command line with real paths. */
static void adapt(struct sp_vm_command *c, const char *mem)
{
	size_t i;
	char *p;

	for (i = 0; c->argv[i]; i++) {
		p = strstr(c->argv[i], "mem-path=/mem");
		if (p) {
			char *was = c->argv[i];

			*p = '\0';
			c->argv[i] = sp_xasprintf("%smem-path=%s%s", was, mem,
						  p + strlen("mem-path=/mem"));
			free(was);
		}
		if (strcmp(c->argv[i], "-sandbox") == 0) {
			free(c->argv[i]);
			free(c->argv[i + 1]);
			for (; c->argv[i + 2]; i++)
				c->argv[i] = c->argv[i + 2];
			c->argv[i] = c->argv[i + 1] = NULL;
			i = 0;
		}
	}
}

static pid_t spawn(struct bench *b, struct sp_vm_fds *f)
{
	struct sp_vm_command c;
	struct sp_err e;
	pid_t pid;

	if (sp_engine_qemu.command(&b->m, f, true, "", "5350ace0-0000-0000-0000-000000000001", &c,
				   &e) < 0)
		die(&e);
	adapt(&c, b->mem);
	pid = fork();
	if (pid == 0) {
		int keep[] = { f->disk, f->control, f->channel, f->console, f->tap };

		for (size_t i = 0; i < SP_NELEM(keep); i++)
			fcntl(keep[i], F_SETFD, 0);
		execv(c.path, c.argv);
		_exit(127);
	}
	sp_vm_command_free(&c);
	return pid;
}

static int64_t await_ready(struct bench *b, int channel, int64_t t0)
{
	struct sp_mux_welcome w = { .generation = ++b->generation + 1000000 };
	struct sp_err e;
	struct pollfd p;
	uint64_t v;
	enum sp_mux_event ev;
	struct sp_mux *mux = sp_mux_new(sp_sock_listen(b->dir, "clients", SOCK_STREAM, 0600, &e), &e);

	memcpy(w.marker_now, b->marker, sizeof w.marker_now);
	sp_random(w.marker_next, sizeof w.marker_next);
	snprintf(w.hostname, sizeof w.hostname, "bare");
	if (!mux || sp_mux_connect(mux, channel, &w, &e) < 0)
		die(&e);
	p = (struct pollfd){ .fd = sp_mux_fd(mux), .events = POLLIN };
	do {
		poll(&p, 1, 30000);
		ev = sp_mux_step(mux, &v);
	} while (ev == SP_MUX_NONE);
	t0 = sp_clock_mono() - t0;
	sp_mux_free(&mux);
	sp_fs_unlink(b->dir, "clients", &e);
	return ev == SP_MUX_READY ? t0 : -1;
}

static void run_once(struct bench *b)
{
	int ctl[2], con[2], net, tap;
	struct sp_err e;
	struct sp_vm *vm;
	int64_t t0, running, ready;
	int state = open(b->state, O_RDONLY | O_CLOEXEC);
	struct sp_vm_fds f = { .disk = open(b->disk, O_RDWR | O_CLOEXEC), .kernel = -1, .initrd = -1,
			       .mem = open(b->mem, O_RDONLY | O_CLOEXEC) };
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ctl) < 0 ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, con) < 0 ||
	    sp_net_tap_create(&net, &tap, &e) < 0)
		exit(1);
	f.control = ctl[1];
	f.console = con[1];
	f.tap = tap;
	f.channel = sp_sock_listen(b->dir, "channel", SOCK_STREAM, 0600, &e);
	t0 = sp_clock_mono();
	pid = spawn(b, &f);
	close(ctl[1]);
	vm = sp_engine_qemu.attach(ctl[0], &e);
	if (!vm || sp_engine_qemu.load(vm, state, 60000, &e) < 0)
		die(&e);
	f.channel = (close(f.channel), sp_sock_connect(b->dir, "channel", SOCK_STREAM, &e));
	if (f.channel < 0 || sp_engine_qemu.cont(vm, &e) < 0)
		die(&e);
	running = sp_clock_mono() - t0;
	ready = await_ready(b, f.channel, t0);
	printf("%.3f\t%.3f\n", (double)running / 1e6, (double)ready / 1e6);
	fflush(stdout);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	sp_engine_qemu.detach(&vm);
	sp_fs_unlink(b->dir, "channel", &e);
	close(con[0]);
	close(con[1]);
	close(tap);
	close(net);
	close(f.disk);
	close(f.mem);
	close(state);
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/bare.XXXXXX";
	struct bench b = { .dir = -1 };
	int i;

	if (argc != 6 || !mkdtemp(dir))
		return 2;
	signal(SIGPIPE, SIG_IGN);
	b.mem = argv[1];
	b.state = argv[2];
	b.disk = argv[3];
	b.dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	read_meta(argv[4], &b);
	for (i = 0; i < atoi(argv[5]); i++)
		run_once(&b);
	rmdir(dir);
	return 0;
}
