/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a sandbox's console: as it is, or escaped where it goes to a terminal. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/session.h"
#include "sys/fd.h"
#include "sys/proc.h"
#include "text/opt.h"
#include "text/table.h"

enum { O_FOLLOW = 1 };

static const struct sp_opt opts[] = {
	{ O_FOLLOW, 'f', "follow", SP_NONE, NULL, "go on as it grows" },
	SP_OPT_JSON,
};

static const struct sp_tool tool = { "space-log", "Print a sandbox's console.", "SANDBOX",
				     SP_ARG_SANDBOX, opts, SP_NELEM(opts) };

/* A terminal obeys what a guest prints: there, lines are kept and everything else is escaped. */
static int print(const char *data, size_t n, bool escape, struct sp_err *e)
{
	sp_auto_str line = SP_STR_INIT;

	for (size_t at = 0; escape && at < n;) {
		size_t end = at;

		while (end < n && data[end] != '\n' && data[end] != '\r' && data[end] != '\t')
			end++;
		sp_text_escape(&line, data + at, end - at);
		if (end < n && data[end] != '\r')
			sp_str_addc(&line, data[end]);
		at = end + 1;
	}
	if (sp_fd_write(1, escape ? line.p : data, escape ? line.len : n) < 0)
		return sp_fail(e, SP_FAIL, errno, "write standard output");
	return 0;
}

static int print_new(int fd, uint64_t *at, bool escape, struct sp_err *e)
{
	static char buf[65536];
	long n;

	while ((n = sp_guest_console_read(fd, at, buf, sizeof buf, e)) > 0)
		if (print(buf, (size_t)n, escape, e) < 0)
			return -1;
	return (int)n;
}

/* Until the file is removed with its sandbox, or whoever reads us leaves. */
static int follow(int fd, uint64_t at, bool escape, struct sp_err *e)
{
	sp_auto_fd watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	char path[32], events[4096] __attribute__((aligned(8)));

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (watch < 0 || inotify_add_watch(watch, path, IN_MODIFY | IN_ATTRIB) < 0)
		return sp_fail(e, SP_FAIL, errno, "watch the console");
	for (;;) {
		struct pollfd pf[2] = { { .fd = watch, .events = POLLIN }, { .fd = 1 } };
		struct stat st;

		if (print_new(fd, &at, escape, e) < 0)
			return -1;
		if (fstat(fd, &st) < 0 || st.st_nlink == 0)
			return 0;
		if (poll(pf, 2, -1) < 0 && errno != EINTR)
			return sp_fail(e, SP_FAIL, errno, "poll");
		if (pf[1].revents & (POLLERR | POLLHUP))
			return 0;
		while (read(watch, events, sizeof events) > 0)
			;
	}
}

static int run(const char *sandbox, bool follows, struct sp_err *e)
{
	bool escape = isatty(1);
	sp_auto_api *api = NULL;
	sp_auto_guest *g = NULL;
	sp_auto_fd fd = -1;
	uint64_t at = 0;

	if (sp_api_open(&api, false, e) < 0)
		return -1;
	g = sp_guest_open(api, sandbox, e);
	fd = g ? sp_guest_console(g, e) : -1;
	if (fd < 0 || sp_priv_keep(0, e) < 0)
		return -1;
	return follows ? follow(fd, at, escape, e) : print_new(fd, &at, escape, e);
}

int main(int argc, char **argv)
{
	struct sp_opt_state st = { .argc = argc, .argv = argv };
	struct sp_err e = { 0 };
	bool follows = false;
	int key, rc;

	while ((key = sp_opt_next(&st, &tool, &e)) > 0) {
		follows |= key == O_FOLLOW;
		if (key == SP_O_JSON)
			sp_tool_set_json(true);
	}
	if (key < 0)
		rc = -1;
	else if (argc - st.i != 1)
		rc = sp_fail(&e, SP_USAGE, 0, "needs one operand: %s", tool.operands);
	else
		rc = run(argv[st.i], follows, &e);
	return sp_finish(&tool, rc, &e);
}
