/* SPDX-License-Identifier: Apache-2.0 */
#include "image/blobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/msg.h"
#include "sys/fd.h"

void sp_blobs_free(struct sp_blobs **b)
{
	if (*b)
		(*b)->free(*b);
	*b = NULL;
}

int sp_blobs_slurp(struct sp_blobs *b, const char *name, size_t max, struct sp_str *out,
		   struct sp_err *e)
{
	struct sp_stream *s;
	struct sp_err ignored;

	if (b->open(b, name, &s, e) < 0)
		return -1;
	if (sp_stream_slurp(s, max, name, out, e) < 0) {
		b->close(b, &ignored);
		return -1;
	}
	return b->close(b, e);
}

struct ask {
	struct sp_blobs base;
	int sock;
	struct sp_fd_stream stream;
	bool more; /* END or FAIL is still to come */
};

static int ask_close(struct sp_blobs *base, struct sp_err *e)
{
	struct ask *a = (struct ask *)base;
	struct sp_msg m;
	int got;

	sp_fd_close(&a->stream.fd);
	if (!a->more)
		return 0;
	a->more = false;
	got = sp_msg_recv(a->sock, &m, NULL, NULL, e);
	if (got < 0)
		return -1;
	if (got == 0)
		return sp_fail(e, SP_FAIL, 0, "the source's process is gone");
	if (m.kind == SP_MSG_FAIL)
		return sp_msg_fail(&m, e);
	return m.kind == SP_MSG_END ? 0 : sp_fail(e, SP_FAIL, 0, "unexpected message");
}

static int ask_open(struct sp_blobs *base, const char *name, struct sp_stream **out,
		    struct sp_err *e)
{
	struct ask *a = (struct ask *)base;
	struct sp_msg m = { .kind = SP_MSG_ASK };
	int got, fd;

	if (strlen(name) >= sizeof m.text)
		return sp_fail(e, SP_FAIL, 0, "a name is too long");
	snprintf(m.text, sizeof m.text, "%s", name);
	if (sp_msg_send(a->sock, &m, -1) < 0)
		return sp_fail(e, SP_FAIL, errno, "ask for '%s'", name);
	got = sp_msg_recv(a->sock, &m, &fd, NULL, e);
	if (got < 0)
		return -1;
	if (got == 0)
		return sp_fail(e, SP_FAIL, 0, "the source's process is gone");
	if (m.kind == SP_MSG_GIVE && fd >= 0) {
		sp_fd_stream_init(&a->stream, fd);
		a->more = m.n[1] == 1;
		*out = &a->stream.base;
		return 0;
	}
	sp_fd_close(&fd);
	if (m.kind == SP_MSG_FAIL)
		return sp_msg_fail(&m, e);
	return sp_fail(e, SP_FAIL, 0, "unexpected message");
}

static void ask_free(struct sp_blobs *base)
{
	struct ask *a = (struct ask *)base;

	sp_fd_close(&a->stream.fd);
	free(a);
}

struct sp_blobs *sp_blobs_ask(int sock)
{
	struct ask *a = sp_xcalloc(1, sizeof *a);

	a->base = (struct sp_blobs){ ask_open, ask_close, ask_free };
	a->sock = sock;
	a->stream.fd = -1;
	return &a->base;
}
