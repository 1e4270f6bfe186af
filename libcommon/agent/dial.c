/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a TCP port on the guest's own loopback. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/agent.h"

static void connected(struct sp_agent *a, struct sp_task *t)
{
	t->connected = true;
	sp_session_opened(a, t->session);
	sp_watch_set(a, &t->out[0].w, EPOLLIN);
	if (sp_buf_len(&t->in.buf) || t->in.eof)
		sp_task_input_data(a, t, NULL, 0); /* what came meanwhile */
}

static void failed(struct sp_agent *a, struct sp_task *t, int sys)
{
	sp_channel_error(a, t->session->chan, sys == ECONNREFUSED ? SP_ABSENT : SP_FAIL,
			 "cannot connect: %s", strerror(sys));
	sp_session_end(a, t->session);
	sp_task_free(a, t);
}

/* The first event of the output's descriptor tells how connecting went. */
static void on_connect(struct sp_agent *a, struct sp_watch *w, uint32_t events)
{
	struct sp_task *t = (struct sp_task *)((char *)w - offsetof(struct sp_task, ctl));
	socklen_t len = sizeof(int);
	int sys = 0;

	(void)events;
	if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &sys, &len) < 0)
		sys = errno;
	sp_watch_close(a, w);
	if (sys)
		failed(a, t, sys);
	else
		connected(a, t);
}

static int begin(struct sp_task *t, uint16_t port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	t->out[0].w.fd = fd;
	if (fd < 0 || sp_ring_init(&t->out[0].ring) < 0)
		return -1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	t->in.w.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	t->ctl.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (t->in.w.fd < 0 || t->ctl.fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&at, sizeof at) < 0 && errno != EINPROGRESS)
		return -1;
	return 0;
}

void sp_dial_open(struct sp_agent *a, uint32_t chan, const unsigned char *p, uint32_t len)
{
	uint64_t port = sp_fields_num(p, len, SP_T_VALUE, 0);
	struct sp_task *t;

	if (port < 1 || port > 65535) {
		sp_channel_error(a, chan, SP_USAGE, "no such port");
		return;
	}
	t = sp_task_new(SP_TASK_DIAL);
	t->out[0].used = true;
	t->out[1].ended = true;
	sp_session_new(a, chan, t);
	if (begin(t, (uint16_t)port) < 0) {
		failed(a, t, errno);
		return;
	}
	/* The outcome is waited for on a copy of the descriptor, so that the watches of the streams
	 * are theirs alone. */
	t->ctl.fn = on_connect;
	sp_watch_set(a, &t->ctl, EPOLLOUT);
}
