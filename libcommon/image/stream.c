/* SPDX-License-Identifier: Apache-2.0 */
#include "image/stream.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/fd.h"

#define BEAT_NS 200000000

void sp_pulse_beat(struct sp_pulse *p)
{
	int64_t now;

	if (!p->beat)
		return;
	now = sp_clock_mono();
	if (now - p->last < BEAT_NS)
		return;
	p->last = now;
	p->beat(p, p->arg);
}

static ssize_t fd_read(struct sp_stream *base, void *buf, size_t n, struct sp_err *e)
{
	struct sp_fd_stream *s = (struct sp_fd_stream *)base;
	size_t ahead = s->ahead.len - s->ahead_at;
	ssize_t got;

	if (ahead) {
		if (n > ahead)
			n = ahead;
		memcpy(buf, s->ahead.p + s->ahead_at, n);
		s->ahead_at += n;
		return (ssize_t)n;
	}
	do
		got = read(s->fd, buf, n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? sp_fail(e, SP_FAIL, errno, "read the source") : got;
}

void sp_fd_stream_init(struct sp_fd_stream *s, int fd)
{
	*s = (struct sp_fd_stream){ .base.read = fd_read, .fd = fd, .ahead = SP_STR_INIT };
}

static ssize_t range_read(struct sp_stream *base, void *buf, size_t n, struct sp_err *e)
{
	struct sp_range_stream *s = (struct sp_range_stream *)base;
	ssize_t got;

	if ((int64_t)n > s->end - s->at)
		n = (size_t)(s->end - s->at);
	if (!n)
		return 0;
	got = sp_fd_pread(s->fd, buf, n, s->at);
	if (got < 0)
		return sp_fail(e, SP_FAIL, errno, "read the source");
	s->at += got;
	return got;
}

static int64_t range_skip(struct sp_stream *base, int64_t n)
{
	struct sp_range_stream *s = (struct sp_range_stream *)base;

	if (n > s->end - s->at)
		n = s->end - s->at;
	s->at += n;
	return n;
}

void sp_range_stream_init(struct sp_range_stream *s, int fd, int64_t at, int64_t n)
{
	*s = (struct sp_range_stream){ .base = { range_read, range_skip },
				       .fd = fd,
				       .at = at,
				       .end = n > INT64_MAX - at ? INT64_MAX : at + n };
}

static ssize_t mem_read(struct sp_stream *base, void *buf, size_t n, struct sp_err *e)
{
	struct sp_mem_stream *s = (struct sp_mem_stream *)base;

	(void)e;
	if (n > s->left)
		n = s->left;
	memcpy(buf, s->p, n);
	s->p += n;
	s->left -= n;
	return (ssize_t)n;
}

void sp_mem_stream_init(struct sp_mem_stream *s, const void *p, size_t n)
{
	*s = (struct sp_mem_stream){ .base.read = mem_read, .p = p, .left = n };
}

int sp_stream_slurp(struct sp_stream *s, size_t max, const char *what, struct sp_str *out,
		    struct sp_err *e)
{
	char buf[16384];
	ssize_t got;

	sp_str_clear(out);
	while ((got = s->read(s, buf, sizeof buf, e)) > 0) {
		if ((size_t)got > max - out->len)
			return sp_fail(e, SP_FAIL, 0, "%s is larger than %zu bytes", what, max);
		sp_str_addn(out, buf, (size_t)got);
	}
	return got < 0 ? -1 : 0;
}
