/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sp_agent agent;

static void clear(struct sp_agent *a)
{
	a->console = -1;
	a->signals.fd = a->ch.w.fd = a->ch.uevents.fd = -1;
	a->freeze.timer.w.fd = a->power.timer.w.fd = -1;
	a->settle.notify.fd = a->settle.events.fd = -1;
	a->settle.quiet.w.fd = a->settle.limit.w.fd = -1;
}

/* For tests: the channel is there from the beginning. */
static int inherit(struct sp_agent *a, int channel, const char *root)
{
	if (root && (chroot(root) || chdir("/"))) {
		fprintf(stderr, "space-guest: change root to '%s': %s\n", root, strerror(errno));
		return -1;
	}
	a->console = fcntl(2, F_DUPFD_CLOEXEC, 3);
	umask(022);
	if (fcntl(channel, F_SETFL, O_NONBLOCK) || fcntl(channel, F_SETFD, FD_CLOEXEC)) {
		fprintf(stderr, "space-guest: descriptor %d: %s\n", channel, strerror(errno));
		return -1;
	}
	a->ch.w.fd = channel;
	a->ch.w.fn = sp_channel_event;
	a->ch.readable = a->ch.writable = true;
	return 0;
}

int sp_agent_main(char **argv, int channel, const char *root, const char *hooks)
{
	struct sp_agent *a = &agent;

	clear(a);
	a->boot = channel < 0;
	a->hooks = hooks;
	sp_channel_init(a);
	if (a->boot)
		sp_init_boot(a, argv);
	else if (inherit(a, channel, root))
		return SP_FAIL;
	if (sp_loop_init(a)) {
		sp_say(a, "cannot begin: %s", strerror(errno));
		return SP_FAIL;
	}
	if (a->boot)
		sp_port_open(a);
	else
		sp_watch_set(a, &a->ch.w, EPOLLIN | EPOLLOUT | EPOLLET);
	if (a->settles)
		sp_settle_wait(a, a->settle.notify.fd, a->init_is_systemd);
	else
		sp_channel_greet(a);
	sp_loop_run(a);
	sp_proc_kill_all(a); /* a test leaves nothing behind */
	return 0;
}
