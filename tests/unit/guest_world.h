/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox without a machine: the real guest agent in its test mode, the real mux in a process
 * that stands for the monitor, a state root in /tmp. It can be paused, resumed, killed and removed
 * as the real one. What runs "in the guest" runs here. */
#ifndef SP_TESTS_GUEST_WORLD_H
#define SP_TESTS_GUEST_WORLD_H

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/guest.h"
#include "api/table.h"
#include "guest/mux.h"
#include "state/record.h"
#include "sys/fd.h"
#include "sys/fs.h"

#define WORLD_ID "s0123456789abcdefghij"

struct world {
	char dir[64];
	struct sp_api api;
	pid_t agent, monitor;
	int channel; /* the host's end of the agent's */
	int control; /* to the monitor: a byte is a pause */
	unsigned generation;
};

__attribute__((unused)) static void world_state(struct world *w, const char *state,
						const char *config)
{
	sp_auto_fd dir = sp_fs_open_beneath(w->api.roots.store, SP_DIR_SANDBOXES "/" WORLD_ID,
					    O_RDONLY | O_DIRECTORY, 0);
	char text[1024];
	struct sp_err e;

	snprintf(text, sizeof text,
		 "{\"format\":1,\"id\":\"%s\",\"state\":\"%s\",\"generation\":\"%u\"%s%s}",
		 WORLD_ID, state, w->generation, config ? "," : "", config ? config : "");
	assert(sp_fs_replace(dir, "record.json", text, strlen(text), 0600, &e) == 0);
}

static char *world_path(const struct world *w, const char *name)
{
	static char path[4][256];
	static int turn;
	char *p = path[turn++ % 4];

	snprintf(p, 256, "%s/%s", w->dir, name);
	return p;
}

__attribute__((unused)) static bool world_begin(struct world *w)
{
	static const char *const dirs[] = { "store",
					    "store/sandboxes",
					    ("store/sandboxes/" WORLD_ID),
					    "store/queue",
					    "run",
					    "guest" };
	char exe[512];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 40);
	int sv[2];

	*w = (struct world){ .dir = "/tmp/test_world.XXXXXX", .channel = -1, .control = -1 };
	assert(n > 0 && mkdtemp(w->dir));
	exe[n] = '\0';
	/* Beside the unit tests; those of a sanitizer are one folder further down. */
	strcpy(strrchr(exe, '/'), "/../bin/space-guest");
	if (access(exe, X_OK) < 0)
		strcpy(strstr(exe, "bin/space-guest"), "../bin/space-guest");
	if (access(exe, X_OK) < 0)
		return false;
	for (size_t i = 0; i < SP_NELEM(dirs); i++)
		assert(mkdir(world_path(w, dirs[i]), 0700) == 0);
	w->api.owner = SP_OWNER_LOCAL;
	w->api.roots.store = open(world_path(w, "store"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w->api.roots.run = open(world_path(w, "run"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(socketpair(AF_UNIX, SOCK_STREAM, 0, sv) == 0);
	w->agent = fork();
	if (!w->agent) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(sv[1], 100);
		close(sv[0]);
		close(sv[1]);
		execl(exe, exe, "--channel", "100", (char *)NULL);
		_exit(127);
	}
	close(sv[1]);
	w->channel = sv[0];
	fcntl(w->channel, F_SETFD, FD_CLOEXEC);
	world_state(w, "running", NULL);
	return true;
}

static void world_serve(struct world *w, int listen_fd, int control, int ready)
{
	struct sp_mux_welcome wl = { .generation = w->generation, .same = true };
	struct pollfd pf[2] = { { .events = POLLIN }, { .fd = control, .events = POLLIN } };
	struct sp_err e;
	struct sp_mux *m = sp_mux_new(listen_fd, &e);
	uint64_t value;
	bool over = false;

	wl.cold = w->generation == 1;
	memset(wl.marker_now, (int)w->generation, sizeof wl.marker_now);
	memset(wl.marker_next, (int)w->generation + 1, sizeof wl.marker_next);
	strcpy(wl.id, WORLD_ID);
	assert(m && sp_mux_connect(m, dup(w->channel), &wl, &e) == 0);
	pf[0].fd = sp_mux_fd(m);
	while (poll(pf, 2, over ? 200 : -1) > 0) {
		enum sp_mux_event ev;

		while ((ev = sp_mux_step(m, &value)) != SP_MUX_NONE)
			if (ev == SP_MUX_READY)
				assert(write(ready, "r", 1) == 1);
		if (pf[1].revents && !over) {
			sp_mux_hang_up(m, SP_CONFLICT, "the sandbox is paused");
			over = true;
			pf[1].fd = -1;
		}
	}
	_exit(0);
}

/* Starts the "machine": cold the first time, then as a load. Returns when it is ready. */
__attribute__((unused)) static void world_start(struct world *w)
{
	int ready[2], control[2], dir, sock;
	struct sp_err e;
	char c;

	mkdir(world_path(w, "run/" WORLD_ID), 0700);
	dir = sp_fs_open_dir(w->api.roots.run, WORLD_ID, &e);
	sock = sp_sock_listen(dir, "guest", SOCK_STREAM, 0600, &e);
	assert(dir >= 0 && sock >= 0 && pipe2(ready, O_CLOEXEC) == 0 &&
	       pipe2(control, O_CLOEXEC) == 0);
	w->generation++;
	w->monitor = fork();
	if (!w->monitor) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(control[1]);
		close(ready[0]);
		world_serve(w, sock, control[0], ready[1]);
	}
	close(sock);
	close(dir);
	close(ready[1]);
	close(control[0]);
	w->control = control[1];
	assert(read(ready[0], &c, 1) == 1);
	close(ready[0]);
}

/* An operation on it begins, or ends. */
__attribute__((unused)) static void world_ticket(struct world *w, bool on)
{
	char *path = world_path(w, "store/queue/" WORLD_ID ".0000000000000001.o1");

	if (on)
		close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	else
		unlink(path);
}

/* As space-pause does it, ending in this state. */
__attribute__((unused)) static void world_pause(struct world *w, const char *state)
{
	world_ticket(w, true);
	assert(write(w->control, "p", 1) == 1);
	waitpid(w->monitor, NULL, 0);
	close(w->control);
	w->control = -1;
	w->monitor = 0;
	world_state(w, state, NULL);
	world_ticket(w, false);
}

__attribute__((unused)) static void world_resume(struct world *w)
{
	world_ticket(w, true);
	world_start(w);
	world_state(w, "running", NULL);
	world_ticket(w, false);
}

__attribute__((unused)) static void world_kill(struct world *w)
{
	kill(w->monitor, SIGKILL);
	waitpid(w->monitor, NULL, 0);
	close(w->control);
	w->control = -1;
	w->monitor = 0;
}

__attribute__((unused)) static void world_end(struct world *w)
{
	char cmd[128];

	if (w->monitor)
		world_kill(w);
	if (w->agent > 0) {
		kill(w->agent, SIGKILL);
		waitpid(w->agent, NULL, 0);
	}
	if (w->channel >= 0)
		close(w->channel);
	snprintf(cmd, sizeof cmd, "rm -rf %s", w->dir);
	assert(system(cmd) == 0);
}

/* The guest as a tool would open it; names are not looked up. */
__attribute__((unused)) static struct sp_guest world_guest(struct world *w)
{
	struct sp_guest g = { .api = &w->api, .operand = "box", .id = WORLD_ID, .watch = -1 };
	struct sp_err e;

	g.dir = sp_fs_open_beneath(w->api.roots.store, SP_DIR_SANDBOXES "/" WORLD_ID,
				   O_RDONLY | O_DIRECTORY, 0);
	g.record = sp_record_load(g.dir, "record.json", &e);
	assert(g.record);
	return g;
}

#endif
