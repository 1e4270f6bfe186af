/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"

void sp_say(const struct sp_agent *a, const char *fmt, ...)
{
	char line[256];
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	memcpy(line, "space-guest: ", 13);
	vsnprintf(line + 13, sizeof line - 15, fmt, ap);
	va_end(ap);
	n = strlen(line);
	line[n] = '\n';
	if (a->console >= 0 && write(a->console, line, n + 1) < 0)
		return; /* a console that takes nothing must not stop the agent */
}

int sp_write_all(int fd, const void *data, size_t n)
{
	const char *p = data;

	while (n) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -1;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

int sp_watch_set(struct sp_agent *a, struct sp_watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };
	int op = !w->events ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;

	if (w->fd < 0 || w->events == events)
		return 0;
	if (epoll_ctl(a->epoll, op, w->fd, &ev))
		return -1;
	w->events = events;
	return 0;
}

void sp_watch_close(struct sp_agent *a, struct sp_watch *w)
{
	if (w->fd < 0)
		return;
	/* A child may still hold a copy of it, and closing ours would not end the watch. */
	sp_watch_set(a, w, 0);
	close(w->fd);
	w->fd = -1;
	w->events = 0;
}

static void on_timer(struct sp_agent *a, struct sp_watch *w, uint32_t events)
{
	struct sp_timer *t = (struct sp_timer *)w;
	uint64_t n;

	(void)events;
	if (read(w->fd, &n, sizeof n) == sizeof n)
		t->fired(a);
}

int sp_timer_set(struct sp_agent *a, struct sp_timer *t, int64_t ms,
		 void (*fired)(struct sp_agent *a))
{
	struct itimerspec when = { .it_value = { ms / 1000, (ms % 1000) * 1000000 } };

	if (t->w.fd < 0) {
		if (!ms)
			return 0;
		t->w.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
		t->w.fn = on_timer;
		if (t->w.fd < 0 || sp_watch_set(a, &t->w, EPOLLIN))
			return -1;
	}
	t->fired = fired;
	return timerfd_settime(t->w.fd, 0, &when, NULL);
}

void sp_child_signals(void)
{
	sigset_t none;

	signal(SIGPIPE, SIG_DFL); /* the only one that the agent set */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

pid_t sp_child_fork(struct sp_agent *a, void (*ended)(struct sp_agent *, void *, int), void *owner,
		    struct sp_child **out)
{
	struct sp_child *c = sp_xcalloc(1, sizeof *c);

	*c = (struct sp_child){ .ended = ended, .owner = owner, .next = a->children };
	c->pid = fork();
	if (c->pid == 0) {
		sp_child_signals();
		return 0;
	}
	if (c->pid < 0) {
		free(c);
		return -1;
	}
	a->children = c;
	*out = c;
	return c->pid;
}

void sp_child_descriptors(int in, int out, int err)
{
	int fds[3] = { in, out, err };

	for (int i = 0; i < 3; i++) {
		if (fds[i] >= 0 && fds[i] != i)
			dup2(fds[i], i);
		if (fds[i] < 0) {
			close(i);
			open("/dev/null", O_RDWR | O_NOCTTY); /* the lowest free number: i */
		}
	}
	if (syscall(SYS_close_range, 3u, ~0u, 0u) < 0)
		for (int fd = 3; fd < 1024; fd++) /* before Linux 5.9 */
			close(fd);
}

static void reap(struct sp_agent *a)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct sp_child **at = &a->children, *c;

		while (*at && (*at)->pid != pid)
			at = &(*at)->next;
		c = *at;
		if (!c)
			continue; /* an orphan that came to the first process */
		*at = c->next;
		if (c->ended)
			c->ended(a, c->owner, status);
		free(c);
	}
	if (pid < 0 && errno == ECHILD)
		sp_power_children(a);
}

static void on_signal(struct sp_agent *a, struct sp_watch *w, uint32_t events)
{
	struct signalfd_siginfo info;

	(void)events;
	while (read(w->fd, &info, sizeof info) == sizeof info) {
		if (info.ssi_signo == SIGCHLD)
			reap(a);
		else
			sp_power_signal(a, (int)info.ssi_signo);
	}
}

int sp_loop_init(struct sp_agent *a)
{
	static const int taken[] = { SIGCHLD, SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGPWR, SIGHUP };
	sigset_t set;

	sigemptyset(&set);
	for (int s = 1; s < NSIG; s++)
		signal(s, SIG_DFL);
	for (size_t i = 0; i < SP_NELEM(taken); i++)
		sigaddset(&set, taken[i]);
	a->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (a->epoll < 0 || sigprocmask(SIG_SETMASK, &set, NULL))
		return -1;
	signal(SIGPIPE, SIG_IGN);
	a->signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	a->signals.fn = on_signal;
	return sp_watch_set(a, &a->signals, EPOLLIN);
}

/* One event a turn: a watch that an event's work closes or frees is never met again in the same
 * batch, and the kernel's ready list is a fair queue by itself. */
void sp_loop_run(struct sp_agent *a)
{
	while (!a->stop) {
		bool more = sp_channel_drive(a);
		struct epoll_event ev;

		if (!a->stop && epoll_wait(a->epoll, &ev, 1, more ? 0 : -1) == 1) {
			struct sp_watch *w = ev.data.ptr;

			w->fn(a, w, ev.events);
		}
	}
}
