/* SPDX-License-Identifier: Apache-2.0 */
/* When has an image's own init settled? By events, and with a bound.
 *
 * systemd tells its supervisor when the boot's queue of jobs is empty, as any service does: it
 * sends READY=1 to $NOTIFY_SOCKET (its manager does so as process 1 too; container managers use
 * it). So it is started with an abstract socket of ours there.
 *
 * Others say nothing. There the kernel's process events are heard (the proc connector): settled is
 * when no process began or ended for QUIET_MS. Without the connector it is a fixed time.
 *
 * In any case it is LIMIT_MS at most: a service that never comes up must not hide a machine. */
#include <errno.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/agent.h"

#define QUIET_MS 2000
#define LIMIT_MS 60000
#define BLIND_MS 5000

int sp_settle_prepare(void)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const char *name = SP_SETTLE_SOCKET + 1;
	size_t n = strlen(name);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(at.sun_path + 1, name, n);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&at,
			    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n))) {
		close(fd);
		return -1;
	}
	return fd;
}

static void settled(struct sp_agent *a)
{
	struct sp_settle *s = &a->settle;

	sp_watch_close(a, &s->notify);
	sp_watch_close(a, &s->events);
	sp_watch_close(a, &s->quiet.w);
	sp_watch_close(a, &s->limit.w);
	sp_channel_greet(a);
}

static void on_notify(struct sp_agent *a, struct sp_watch *w, uint32_t events)
{
	char text[4096];
	ssize_t n = recv(w->fd, text + 1, sizeof text - 2, 0);

	(void)events;
	if (n <= 0)
		return;
	text[0] = '\n';
	text[n + 1] = '\0';
	if (strstr(text, "\nREADY=1"))
		settled(a);
}

static void on_process(struct sp_agent *a, struct sp_watch *w, uint32_t events)
{
	char message[1024];

	(void)events;
	while (recv(w->fd, message, sizeof message, 0) > 0 || errno == ENOBUFS)
		;
	sp_timer_set(a, &a->settle.quiet, QUIET_MS, settled);
}

static int open_process_events(void)
{
	struct sockaddr_nl at = { .nl_family = AF_NETLINK, .nl_groups = CN_IDX_PROC };
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_CONNECTOR);
	struct {
		struct nlmsghdr head;
		struct {
			struct cb_id id;
			uint32_t seq, ack;
			uint16_t len, flags;
			uint32_t op;
		} __attribute__((packed)) body;
	} q = { .head = { .nlmsg_len = sizeof q, .nlmsg_type = NLMSG_DONE } };

	q.body.id.idx = CN_IDX_PROC;
	q.body.id.val = CN_VAL_PROC;
	q.body.len = sizeof q.body.op;
	q.body.op = PROC_CN_MCAST_LISTEN;
	if (fd < 0)
		return -1;
	if (bind(fd, (struct sockaddr *)&at, sizeof at) || send(fd, &q, sizeof q, 0) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

void sp_settle_wait(struct sp_agent *a, int notify, bool systemd)
{
	struct sp_settle *s = &a->settle;
	bool told = systemd && notify >= 0;

	s->notify.fd = notify;
	s->notify.fn = on_notify;
	sp_watch_set(a, &s->notify, EPOLLIN);
	sp_timer_set(a, &s->limit, LIMIT_MS, settled);
	if (told)
		return;
	s->events.fd = open_process_events();
	s->events.fn = on_process;
	sp_watch_set(a, &s->events, EPOLLIN);
	sp_timer_set(a, &s->quiet, s->events.fd < 0 ? BLIND_MS : QUIET_MS, settled);
}
