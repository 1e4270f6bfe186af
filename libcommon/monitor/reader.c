/* SPDX-License-Identifier: Apache-2.0 */
/* The half of the monitor that reads what the VMM and the guest write. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "monitor/console.h"
#include "monitor/half.h"
#include "sys/fd.h"

#define LOG_TAIL 200

struct state {
	struct sp_reader in;
	struct sp_mux *mux;
	struct sp_vm *vm;
	char log[LOG_TAIL + 1]; /* the end of what the VMM printed, for errors */
};

static int tell(struct state *s, enum sp_half_type type, int code, uint64_t value, const char *text)
{
	struct sp_half_msg m = { .type = type, .code = code, .value = value };

	if (text)
		snprintf(m.text, sizeof m.text, "%.255s", text);
	return sp_sock_send(s->in.keeper, &m, sizeof m, NULL, 0);
}

static void read_log(struct state *s)
{
	char buf[1024];
	ssize_t n = read(s->in.log, buf, sizeof buf);
	size_t keep, have = strlen(s->log), got, i;

	if (n <= 0) {
		if (n == 0 || errno != EINTR)
			sp_fd_close(&s->in.log);
		return;
	}
	got = (size_t)n;
	for (i = 0; i < got; i++) {
		if (buf[i] < ' ' || buf[i] > '~')
			buf[i] = ' ';
	}
	if (got > LOG_TAIL) {
		memcpy(s->log, buf + got - LOG_TAIL, LOG_TAIL);
		s->log[LOG_TAIL] = '\0';
		return;
	}
	keep = have + got > LOG_TAIL ? LOG_TAIL - got : have;
	memmove(s->log, s->log + have - keep, keep);
	memcpy(s->log + keep, buf, got);
	s->log[keep + got] = '\0';
}

/* An error of the VMM, with what it printed, if anything. */
static int done_with_log(struct state *s, struct sp_err *e)
{
	struct pollfd p = { .fd = s->in.log, .events = POLLIN };

	if (p.fd >= 0 && poll(&p, 1, 0) == 1 && (p.revents & POLLIN))
		read_log(s);
	if (s->log[0])
		sp_wrap(e, "%s", s->log);
	return tell(s, SP_H_DONE, e->code, 0, e->msg);
}

static int start(struct state *s, int load, int fd, struct sp_err *e)
{
	s->vm = s->in.engine->attach(sp_take_fd(&s->in.control), e);
	if (!s->vm)
		return -1;
	return load ? s->in.engine->load(s->vm, fd, 60000, e) : 0;
}

/* Does one request. A failure of the request is answered; -1 only when the keeper is gone. */
static int serve(struct state *s, const struct sp_half_msg *m, int *fd)
{
	const struct sp_engine *en = s->in.engine;
	enum sp_vm_state vm = SP_VM_UNKNOWN;
	struct sp_err e = { .code = SP_OK };
	int rc = 0;

	if (!s->vm && m->type != SP_H_START && m->type != SP_H_HANG_UP)
		rc = sp_fail(&e, SP_CONFLICT, 0, "no VMM");
	else if (m->type == SP_H_START)
		rc = start(s, m->value == 1, *fd, &e);
	else if (m->type == SP_H_CHANNEL)
		rc = sp_mux_connect(s->mux, sp_take_fd(fd), &m->welcome, &e);
	else if (m->type == SP_H_CONT)
		rc = en->cont(s->vm, &e);
	else if (m->type == SP_H_STOP)
		rc = en->stop(s->vm, &e);
	else if (m->type == SP_H_SAVE)
		rc = en->save(s->vm, sp_take_fd(fd), &e);
	else if (m->type == SP_H_STATE)
		rc = en->state(s->vm, &vm, &e);
	else if (m->type == SP_H_FREEZE)
		rc = sp_mux_freeze(s->mux, (uint32_t)m->value, &e);
	else if (m->type == SP_H_THAW)
		rc = sp_mux_thaw(s->mux, &e);
	else if (m->type == SP_H_HANG_UP)
		sp_mux_hang_up(s->mux, m->code, m->text);
	else
		rc = sp_fail(&e, SP_USAGE, 0, "no such request");
	return rc < 0 ? done_with_log(s, &e) : tell(s, SP_H_DONE, SP_OK, vm, NULL);
}

static int take_request(struct state *s)
{
	struct sp_half_msg m;
	sp_auto_fd fd = -1;
	int nfds = 1;
	ssize_t n = sp_sock_recv(s->in.keeper, &m, sizeof m, &fd, &nfds);

	if (n != (ssize_t)sizeof m)
		return -1;
	m.text[sizeof m.text - 1] = '\0';
	return serve(s, &m, &fd);
}

static int take_mux_events(struct state *s)
{
	uint64_t value;
	enum sp_mux_event ev;
	static const enum sp_half_type type[] = {
		[SP_MUX_READY] = SP_H_READY,   [SP_MUX_FROZEN] = SP_H_FROZEN,
		[SP_MUX_THAWED] = SP_H_THAWED, [SP_MUX_LOST] = SP_H_LOST,
	};

	for (;;) {
		value = 0;
		ev = sp_mux_step(s->mux, &value);
		if (ev == SP_MUX_NONE)
			return 0;
		if (tell(s, type[ev], SP_OK, value, NULL) < 0)
			return -1;
	}
}

static int take_vm_events(struct state *s)
{
	enum sp_vm_state vm;
	struct sp_err e;

	if (s->in.engine->events(s->vm, &vm, &e) < 0) {
		s->in.engine->detach(&s->vm);
		if (vm != SP_VM_ENDED) /* it went without a word on the control connection */
			return tell(s, SP_H_VM, SP_OK, SP_VM_ENDED,
				    s->log[0] ? s->log : "its VMM ended");
	}
	return vm == SP_VM_UNKNOWN ? 0 : tell(s, SP_H_VM, SP_OK, vm, NULL);
}

static void take_console(struct state *s)
{
	char buf[4096];
	ssize_t n = recv(s->in.console, buf, sizeof buf, MSG_DONTWAIT);

	if (n > 0)
		sp_console_append(s->in.ring, buf, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		sp_fd_close(&s->in.console);
}

int sp_reader_main(void *reader)
{
	struct state s = { .in = *(struct sp_reader *)reader };
	struct sp_err e;
	int rc = 0;

	s.mux = sp_mux_new(s.in.clients, &e);
	if (!s.mux)
		return 1;
	while (rc == 0) {
		struct pollfd p[] = {
			{ .fd = s.in.keeper, .events = POLLIN },
			{ .fd = sp_mux_fd(s.mux), .events = POLLIN },
			{ .fd = s.vm ? s.in.engine->fd(s.vm) : -1, .events = POLLIN },
			{ .fd = s.in.console, .events = POLLIN },
			{ .fd = s.in.log, .events = POLLIN },
		};

		if (poll(p, SP_NELEM(p), -1) < 0) {
			rc = errno == EINTR ? 0 : -1;
			continue;
		}
		if (p[4].revents)
			read_log(&s);
		if (p[3].revents)
			take_console(&s);
		if (p[1].revents)
			rc = take_mux_events(&s);
		if (!rc && p[2].revents && s.vm)
			rc = take_vm_events(&s);
		if (!rc && p[0].revents)
			rc = take_request(&s);
	}
	sp_mux_free(&s.mux);
	return 0;
}
