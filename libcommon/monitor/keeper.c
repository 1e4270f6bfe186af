/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's conversation with the reader, its control socket, and its end. */
#include "monitor/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "state/record.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/proc.h"
#include "text/log.h"

static void note(struct sp_keeper *k, const struct sp_half_msg *m)
{
	switch (m->type) {
	case SP_H_READY:
		k->ready = true;
		k->hooks_failed = (uint32_t)m->value;
		break;
	case SP_H_FROZEN:
		k->frozen = (int)(m->value & 0xffff);
		break;
	case SP_H_THAWED:
		k->thawed = true;
		break;
	case SP_H_LOST:
		k->lost = true;
		k->ready = false;
		break;
	case SP_H_VM:
		if (m->value <= SP_VM_ENDED)
			k->vm = (enum sp_vm_state)m->value;
		break;
	default:
		break; /* a reader that talks nonsense spoils its own sandbox only */
	}
}

static void clean_text(char *text, size_t n)
{
	size_t i;

	text[n - 1] = '\0';
	for (i = 0; text[i]; i++) {
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
	}
}

int sp_keeper_hear(struct sp_keeper *k, int ms, struct sp_half_msg *m, struct sp_err *e)
{
	struct pollfd p = { .fd = k->half, .events = POLLIN };
	int nfds = 0, rc;

	do {
		rc = poll(&p, 1, ms);
	} while (rc < 0 && errno == EINTR);
	if (rc == 0)
		return sp_fail(e, SP_BUSY, 0, "no answer in time");
	if (rc < 0 || sp_sock_recv(k->half, m, sizeof *m, NULL, &nfds) != (ssize_t)sizeof *m) {
		k->vm = SP_VM_ENDED;
		return sp_fail(e, SP_FAIL, 0, "the monitor's reading half has ended");
	}
	if (m->type == SP_H_DONE)
		return 1;
	if (m->type == SP_H_VM && m->value == SP_VM_ENDED && k->vm != SP_VM_ENDED) {
		clean_text(m->text, sizeof m->text);
		snprintf(k->ended_why, sizeof k->ended_why, "%s", m->text);
	}
	note(k, m);
	return 0;
}

static int ms_until(int64_t until)
{
	int64_t left = until - sp_clock_mono();

	return left <= 0 ? 0 : (int)(left / 1000000) + 1;
}

int sp_keeper_send(struct sp_keeper *k, const struct sp_half_msg *q, int fd, int ms,
		   uint64_t *answer, struct sp_err *e)
{
	int64_t until = sp_clock_mono() + (int64_t)ms * 1000000;
	struct sp_half_msg m = { 0 };
	int rc;

	if (sp_sock_send(k->half, q, sizeof *q, &fd, fd >= 0 ? 1 : 0) < 0)
		return sp_fail(e, SP_FAIL, errno, "the monitor's reading half is gone");
	do {
		rc = sp_keeper_hear(k, ms_until(until), &m, e);
	} while (rc == 0);
	if (rc < 0)
		return -1;
	if (answer)
		*answer = m.value;
	if (m.code == SP_OK)
		return 0;
	clean_text(m.text, sizeof m.text);
	return sp_fail(e, m.code > SP_OK && m.code <= SP_HOST ? (enum sp_code)m.code : SP_FAIL, 0,
		       "%s", m.text);
}

int sp_keeper_ask(struct sp_keeper *k, enum sp_half_type type, uint64_t value, int fd, int ms,
		  uint64_t *answer, struct sp_err *e)
{
	struct sp_half_msg m = { .type = type, .value = value };

	return sp_keeper_send(k, &m, fd, ms, answer, e);
}

int sp_keeper_await(struct sp_keeper *k, const bool *flag, int ms, struct sp_err *e)
{
	int64_t until = sp_clock_mono() + (int64_t)ms * 1000000;
	struct sp_half_msg m;

	while (!*flag) {
		if (k->vm == SP_VM_ENDED)
			return sp_fail(e, SP_FAIL, 0, "the machine has ended%s%s",
				       k->ended_why[0] ? ": " : "", k->ended_why);
		if (k->lost)
			return sp_fail(e, SP_FAIL, 0, "the guest broke the channel's protocol");
		if (sp_keeper_hear(k, ms_until(until), &m, e) < 0)
			return -1;
	}
	return 0;
}

/* Leaves word of how the machine ended, for whoever lists it: sandboxes/<id>/ended. */
static void record_end(struct sp_keeper *k)
{
	sp_auto_json *rec = sp_json_new_object();
	struct sp_err e;

	sp_json_put_i64(rec, "generation", (int64_t)k->spec.generation);
	sp_json_put_i64(rec, "at", sp_clock_real());
	sp_json_put_str(rec, "state",
			k->vm == SP_VM_ENDED && !k->ended_why[0] ? "stopped" : "dead");
	sp_json_put_str(rec, "why", k->ended_why[0] ? k->ended_why : "the guest powered off");
	if (sp_record_save(k->box, "ended", rec, &e) < 0)
		sp_log(SP_LOG_ERR, "cannot record the end: %s", e.msg);
}

static void end_process(pid_t pid, int *pidfd)
{
	struct sp_err e;
	int status;

	if (pid <= 0)
		return;
	kill(pid, SIGKILL); /* our own unreaped child, so the number is still its */
	sp_jail_wait(pid, *pidfd, -1, &status, &e);
	sp_fd_close(pidfd);
}

void sp_keeper_end(struct sp_keeper *k)
{
	struct sp_err e;

	end_process(k->vmm, &k->vmm_pidfd);
	end_process(k->reader, &k->reader_pidfd);
	k->vmm = k->reader = 0;
	sp_fd_close(&k->disk);
	sp_jail_cgroup_remove(k->spec.sandbox);
	if (k->run < 0)
		return;
	sp_fs_unlink(k->run, "ctl", &e);
	sp_fs_unlink(k->run, "guest", &e);
	sp_fs_unlink(k->run, "channel", &e);
}

static void ask_state(struct sp_keeper *k)
{
	uint64_t vm = SP_VM_UNKNOWN;
	struct sp_err e;

	if (sp_keeper_ask(k, SP_H_STATE, 0, -1, 10000, &vm, &e) == 0 && vm <= SP_VM_ENDED)
		k->vm = (enum sp_vm_state)vm;
}

/* One connection: one request, one answer. Returns true when the machine is to end. */
static bool serve_one(struct sp_keeper *k, int conn)
{
	struct timeval limit = { .tv_sec = 5 };
	struct sp_mon_request *q = sp_xcalloc(1, sizeof *q);
	struct sp_mon_answer a = { .size = sizeof a };
	struct ucred peer;
	socklen_t n = sizeof peer;
	struct sp_err e = { .code = SP_OK };
	int nfds = 0, rc = 0;
	bool quit = false;

	setsockopt(conn, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(conn, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0 || peer.uid != geteuid())
		rc = sp_fail(&e, SP_DENIED, 0, "not your monitor");
	else if (sp_sock_recv(conn, q, sizeof *q, NULL, &nfds) != (ssize_t)sizeof *q ||
		 q->size != sizeof *q || q->meta_len > sizeof q->meta)
		rc = sp_fail(&e, SP_USAGE, 0, "not a request of this release");
	else if (q->verb == SP_MON_STATUS)
		ask_state(k);
	else if (q->verb == SP_MON_QUIT)
		quit = true;
	else if (q->verb == SP_MON_CHECKPOINT) {
		rc = sp_keeper_checkpoint(k, q, &a, &e);
		quit = rc == 0 && q->then_quit;
	} else
		rc = sp_fail(&e, SP_USAGE, 0, "no such request");
	if (rc < 0) {
		a.code = (int)e.code;
		snprintf(a.message, sizeof a.message, "%.*s", (int)sizeof a.message - 1, e.msg);
	}
	a.vm_state = k->vm;
	a.agent_ready = k->ready;
	if (quit)
		sp_keeper_end(k);
	sp_sock_send(conn, &a, sizeof a, NULL, 0);
	sp_free_ptr(&q);
	return quit;
}

static void vmm_ended(struct sp_keeper *k)
{
	snprintf(k->ended_why, sizeof k->ended_why, "its VMM ended");
	k->vm = SP_VM_ENDED;
}

void sp_keeper_serve(struct sp_keeper *k)
{
	struct pollfd p[] = { { .fd = k->ctl, .events = POLLIN },
			      { .fd = k->half, .events = POLLIN },
			      { .fd = k->vmm_pidfd, .events = POLLIN } };
	struct sp_half_msg m;
	struct sp_err e;
	bool quit = false;

	while (!quit && k->vm != SP_VM_ENDED) {
		if (poll(p, SP_NELEM(p), -1) < 0 && errno != EINTR)
			break;
		if (p[1].revents)
			sp_keeper_hear(k, 0, &m, &e);
		/* the reader may still have to say why it ended */
		while (p[2].revents && k->vm != SP_VM_ENDED) {
			if (sp_keeper_hear(k, 1000, &m, &e) < 0)
				vmm_ended(k);
		}
		if (p[0].revents && k->vm != SP_VM_ENDED) {
			sp_auto_fd conn = accept4(k->ctl, NULL, NULL, SOCK_CLOEXEC);

			quit = conn >= 0 && serve_one(k, conn);
		}
	}
	if (!quit)
		record_end(k);
	sp_keeper_end(k);
}
