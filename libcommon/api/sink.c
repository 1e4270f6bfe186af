/* SPDX-License-Identifier: Apache-2.0 */
#include "api/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/fd.h"

void sp_sink_init(struct sp_sink *s, int fd)
{
	struct stat st;
	char path[32];

	*s = (struct sp_sink){ .fd = fd, .own = -1 };
	sp_buf_init(&s->buf, SP_G_WINDOW);
	if (fstat(fd, &st) < 0) {
		s->closed = true; /* not even open: as if it were /dev/null */
		return;
	}
	if (S_ISSOCK(st.st_mode))
		s->way = SP_SINK_SOCKET;
	if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
		return;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	s->own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	s->way = s->own >= 0 ? SP_SINK_NONBLOCK : SP_SINK_CAREFUL;
	s->fd = s->own >= 0 ? s->own : fd;
}

void sp_sink_free(struct sp_sink *s)
{
	sp_fd_close(&s->own);
	sp_buf_free(&s->buf);
}

/* As write(2); 0: not now. */
static ssize_t put(const struct sp_sink *s, const void *data, size_t n)
{
	struct pollfd pf = { .fd = s->fd, .events = POLLOUT };
	ssize_t r;

	if (s->way == SP_SINK_CAREFUL) {
		if (poll(&pf, 1, 0) <= 0)
			return 0;
		n = n > PIPE_BUF ? PIPE_BUF : n;
	}
	do
		r = s->way == SP_SINK_SOCKET ?
			    send(s->fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL) :
			    write(s->fd, data, n);
	while (r < 0 && errno == EINTR);
	return r < 0 && errno == EAGAIN ? 0 : r;
}

/* All that goes; how much. */
static size_t put_some(struct sp_sink *s, const unsigned char *data, size_t n)
{
	size_t done = 0;

	while (done < n && !s->closed) {
		ssize_t r = put(s, data + done, n - done);

		if (r < 0) {
			s->sys = errno;
			s->closed = true;
		} else if (r == 0) {
			break;
		} else {
			done += (size_t)r;
		}
	}
	return s->closed ? n : done;
}

int sp_sink_put(struct sp_sink *s, uint64_t off, const unsigned char *data, size_t n)
{
	size_t done = 0;

	if (!s->started || off > s->next) {
		s->started = true;
		s->next = s->told = off;
	} else if (s->next - off >= n) {
		return 0;
	} else {
		done = (size_t)(s->next - off);
	}
	data += done;
	n -= done;
	done = sp_buf_len(&s->buf) ? 0 : put_some(s, data, n);
	s->next += n;
	return s->closed || sp_buf_put(&s->buf, data + done, n - done) ? 0 : -1;
}

void sp_sink_flush(struct sp_sink *s)
{
	size_t n = sp_buf_len(&s->buf);

	if (n)
		sp_buf_drop(&s->buf, put_some(s, sp_buf_head(&s->buf), n));
}

void sp_sink_rewind(struct sp_sink *s)
{
	s->next -= sp_buf_len(&s->buf);
	s->told = s->next;
	sp_buf_drop(&s->buf, sp_buf_len(&s->buf));
}
