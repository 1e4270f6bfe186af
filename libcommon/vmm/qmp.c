/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/qmp.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "sys/clock.h"
#include "sys/fd.h"

void sp_qmp_init(struct sp_qmp *q, int fd)
{
	*q = (struct sp_qmp){ .fd = fd };
	sp_buf_init(&q->in, SP_QMP_LINE);
}

static int broken(struct sp_qmp *q, struct sp_err *e, const char *why)
{
	q->ended = true;
	return sp_fail(e, SP_FAIL, 0, "the VMM's control connection %s", why);
}

static void note_event(struct sp_qmp *q, const struct sp_json *msg, const char *event)
{
	const char *status;

	if (strcmp(event, "RESUME") == 0) {
		q->told = SP_VM_RUNNING;
	} else if (strcmp(event, "STOP") == 0) {
		if (q->told != SP_VM_STOPPED_IO)
			q->told = SP_VM_PAUSED;
	} else if (strcmp(event, "BLOCK_IO_ERROR") == 0) {
		q->told = SP_VM_STOPPED_IO;
	} else if (strcmp(event, "SHUTDOWN") == 0) {
		q->told = SP_VM_ENDED;
	} else if (strcmp(event, "MIGRATION") == 0) {
		status = sp_json_str(sp_json_get(msg, "data"), "status");
		if (status && strcmp(status, "completed") == 0)
			q->migrated = true;
		if (status && strcmp(status, "failed") == 0)
			q->migration_failed = true;
	}
}

/* Takes one whole line off the input: 1 with *msg, 0 there is none. */
static int take_line(struct sp_qmp *q, struct sp_json **msg, struct sp_err *e)
{
	const unsigned char *head = sp_buf_head(&q->in), *end;
	size_t n = sp_buf_len(&q->in);

	end = n ? memchr(head, '\n', n) : NULL;
	if (!end) {
		if (!sp_buf_space(&q->in))
			return broken(q, e, "sent a line without end");
		return 0;
	}
	*msg = sp_json_parse((const char *)head, (size_t)(end - head), e);
	sp_buf_drop(&q->in, (size_t)(end - head) + 1);
	if (!*msg || !sp_json_is_object(*msg)) {
		sp_json_free(msg);
		return broken(q, e, "sent what is not JSON");
	}
	return 1;
}

/* Reads what is there: 1 something came, 0 nothing (would block), -1 the end. */
static int fill(struct sp_qmp *q, struct sp_err *e)
{
	size_t want = sp_buf_space(&q->in) < 4096 ? sp_buf_space(&q->in) : 4096;
	unsigned char *to = sp_buf_room(&q->in, want);
	ssize_t n;

	do {
		n = recv(q->fd, to, want, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n > 0) {
		sp_buf_added(&q->in, (size_t)n);
		return 1;
	}
	if (n < 0 && errno == EAGAIN)
		return 0;
	return broken(q, e, "has ended");
}

/* Waits for the next message that is no event: 1 with *msg, 0 an event was noted, -1. */
static int next_message(struct sp_qmp *q, int64_t until, struct sp_json **msg, struct sp_err *e)
{
	struct pollfd p = { .fd = q->fd, .events = POLLIN };
	const char *event;
	int64_t left;
	int rc;

	for (;;) {
		rc = take_line(q, msg, e);
		if (rc < 0)
			return -1;
		if (rc == 1) {
			event = sp_json_str(*msg, "event");
			if (!event)
				return 1;
			note_event(q, *msg, event);
			sp_json_free(msg);
			*msg = NULL;
			return 0;
		}
		rc = fill(q, e);
		if (rc < 0)
			return -1;
		if (rc > 0)
			continue;
		left = until - sp_clock_mono();
		if (left <= 0)
			return sp_fail(e, SP_BUSY, 0, "the VMM does not answer");
		if (poll(&p, 1, (int)(left / 1000000) + 1) < 0 && errno != EINTR)
			return sp_fail(e, SP_FAIL, errno, "poll");
	}
}

int sp_qmp_call(struct sp_qmp *q, const char *name, const char *args, int fd, int ms,
		struct sp_json **ret, struct sp_err *e)
{
	int64_t until = sp_clock_mono() + (int64_t)ms * 1000000;
	sp_auto_str line = SP_STR_INIT;
	int rc;

	if (q->ended)
		return broken(q, e, "has ended");
	sp_str_addf(&line, "{\"execute\":\"%s\"", name);
	if (args)
		sp_str_addf(&line, ",\"arguments\":%s", args);
	sp_str_add(&line, "}\n");
	if (sp_sock_send(q->fd, line.p, line.len, &fd, fd >= 0 ? 1 : 0) < 0)
		return broken(q, e, "cannot be written to");
	for (;;) {
		sp_auto_json *msg = NULL;

		rc = next_message(q, until, &msg, e);
		if (rc < 0)
			return sp_wrap(e, "%s", name);
		if (rc == 0)
			continue;
		if (sp_json_get(msg, "return")) {
			if (ret)
				*ret = sp_json_copy(sp_json_get(msg, "return"));
			return 0;
		}
		if (sp_json_get(msg, "error")) {
			const char *desc = sp_json_str(sp_json_get(msg, "error"), "desc");

			return sp_fail(e, SP_FAIL, 0, "%s: the VMM refused: %.200s", name,
				       desc ? desc : "no reason given");
		}
	}
}

int sp_qmp_greet(struct sp_qmp *q, int ms, struct sp_err *e)
{
	int64_t until = sp_clock_mono() + (int64_t)ms * 1000000;
	int rc;

	do {
		sp_auto_json *msg = NULL;

		rc = next_message(q, until, &msg, e);
		if (rc < 0)
			return sp_wrap(e, "greeting");
		if (rc == 1 && !sp_json_get(msg, "QMP"))
			return broken(q, e, "did not begin with a greeting");
	} while (rc == 0);
	return sp_qmp_call(q, "qmp_capabilities", NULL, -1, ms, NULL, e);
}

int sp_qmp_await_migration(struct sp_qmp *q, int ms, struct sp_err *e)
{
	int64_t until = sp_clock_mono() + (int64_t)ms * 1000000;

	while (!q->migrated) {
		sp_auto_json *msg = NULL;

		if (q->migration_failed)
			return sp_fail(e, SP_FAIL, 0, "the VMM could not load the machine");
		if (next_message(q, until, &msg, e) < 0)
			return sp_wrap(e, "load");
	}
	return 0;
}

int sp_qmp_drain(struct sp_qmp *q, struct sp_err *e)
{
	int rc, got;

	do {
		got = fill(q, e);
		if (got < 0)
			return -1;
		do {
			sp_auto_json *msg = NULL;

			rc = take_line(q, &msg, e);
			if (rc == 1 && sp_json_str(msg, "event"))
				note_event(q, msg, sp_json_str(msg, "event"));
		} while (rc == 1);
		if (rc < 0)
			return -1;
	} while (got > 0);
	return 0;
}
