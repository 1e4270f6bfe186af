/* SPDX-License-Identifier: Apache-2.0 */
/* From the fork to the program. All of it runs in the child, which may block as it likes. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"

#define PATH_DEFAULT "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

extern char **environ;

static _Noreturn void cannot(int sys, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line - 64, fmt, ap);
	va_end(ap);
	n = strlen(line);
	if (sys)
		n += (size_t)snprintf(line + n, sizeof line - n, ": %s", strerror(sys));
	dprintf(2, "space-guest: %s\n", line);
	_exit(sys == ENOENT ? 127 : 126);
}

/* Fields of one tag as a NULL-ended array of texts; extra: room for that many more. */
static char **texts(const unsigned char *p, uint32_t len, enum sp_g_tag want, size_t extra,
		    size_t *count)
{
	const unsigned char *data;
	uint32_t pos = 0, n;
	size_t all = 0;
	uint8_t tag;
	char **v;

	while (sp_fields_next(p, len, &pos, &tag, &data, &n) == 1)
		all += tag == (uint8_t)want;
	v = sp_xcalloc(all + extra + 1, sizeof *v);
	*count = 0;
	pos = 0;
	while (sp_fields_next(p, len, &pos, &tag, &data, &n) == 1) {
		char *text;

		if (tag != (uint8_t)want)
			continue;
		text = sp_xmalloc((size_t)n + 1);
		memcpy(text, data, n);
		text[n] = '\0';
		if (strlen(text) != n)
			cannot(0, "an argument or variable holds a NUL byte");
		v[(*count)++] = text;
	}
	return v;
}

static void add_default(char **env, size_t *n, const char *key, const char *value)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < *n; i++)
		if (strncmp(env[i], key, len) == 0 && env[i][len] == '=')
			return;
	env[(*n)++] = sp_xasprintf("%s=%s", key, value);
}

static void make_environment(const unsigned char *p, uint32_t len, const struct sp_user *u,
			     bool tty)
{
	size_t n;
	char **env = texts(p, len, SP_T_ENV, 8, &n);

	add_default(env, &n, "PATH", PATH_DEFAULT);
	add_default(env, &n, "HOME", u->home);
	add_default(env, &n, "USER", u->name);
	add_default(env, &n, "LOGNAME", u->name);
	add_default(env, &n, "SHELL", u->shell);
	if (tty)
		add_default(env, &n, "TERM", "xterm");
	environ = env;
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	sp_write_all(fd, text, strlen(text));
	close(fd);
}

static void enter_folder(const unsigned char *p, uint32_t len, const struct sp_user *u)
{
	char cwd[4096];

	if (sp_fields_text(p, len, SP_T_CWD, cwd, sizeof cwd) == 0 && cwd[0]) {
		if (chdir(cwd))
			cannot(errno == ENOENT ? ENOTDIR : errno, "cannot change to folder '%s'",
			       cwd);
		return;
	}
	if (chdir(u->home) && chdir("/"))
		cannot(EACCES, "cannot change to a folder");
}

void sp_spawn_exec(const unsigned char *p, uint32_t len, const int fds[3], bool tty)
{
	char user[256] = "", why[128];
	struct sp_user u;
	char **argv;
	size_t argc;

	setsid();
	if (tty)
		ioctl(fds[0], TIOCSCTTY, 0);
	sp_child_descriptors(fds[0], fds[1], fds[2]);
	umask(022);
	write_text("/proc/self/oom_score_adj", "0");
	argv = texts(p, len, SP_T_ARG, 0, &argc);
	sp_fields_text(p, len, SP_T_USER, user, sizeof user);
	if (sp_user_find(user, &u, why, sizeof why) < 0)
		cannot(0, "%s", why);
	if (tty && fchown(0, u.uid, (gid_t)-1) && geteuid() == 0)
		cannot(errno, "cannot give the terminal to '%s'", u.name);
	if (sp_user_become(&u))
		cannot(errno, "cannot become user '%s'", u.name);
	make_environment(p, len, &u, tty);
	enter_folder(p, len, &u);
	execvp(argv[0], argv);
	if (errno == ENOTDIR)
		errno = ENOENT; /* a folder of PATH that is none */
	cannot(errno, "cannot run '%s'", argv[0]);
}
