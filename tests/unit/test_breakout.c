/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile program in the VMM's place and in a tool's: what works for it, line by line. */
#include <sys/mman.h>
#include <sys/stat.h>

#include "jail_rig.h"
#include "sys/proc.h"

static char program[4096];

/* build/unit/test_breakout finds build/fakes/breakout, and so does
 * build/asan/unit/test_breakout. */
static int find_program(void)
{
	char self[3072];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	char *slash;

	self[n < 0 ? 0 : n] = '\0';
	for (int i = 0; i < 3 && (slash = strrchr(self, '/')); i++) {
		*slash = '\0';
		snprintf(program, sizeof program, "%s/fakes/breakout", self);
		if (access(program, X_OK) == 0)
			return 0;
	}
	return -1;
}

static int run_jailed(enum sp_jail_calls calls, const int *keep, size_t nkeep, struct sp_str *out)
{
	static const char *const argv[] = { "vmm", "-S", NULL };
	static const char *const env[] = { "BREAKOUT_SOCKETS=@space-test:/run/systemd/notify",
					   NULL };
	struct sp_jail_bind bind = { -1, program, "/vmm", false, true };
	struct sp_jail j = jail_of(calls);
	sp_auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC), pidfd = -1, in = -1, to = -1;
	int p[2], status = -1;
	struct sp_err e;
	pid_t pid;

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	in = p[0];
	to = p[1];
	j.binds = &bind;
	j.nbinds = 1;
	j.dev = true;
	j.max_procs = 8;
	j.host_programs = true;
	j.keep = keep;
	j.nkeep = nkeep;
	j.stdio = (int[]){ null, to, null };
	pid = sp_jail_exec(&j, "/vmm", (char *const *)argv, (char *const *)env, &pidfd, &e);
	if (pid < 0) {
		printf("# %s\n", e.msg);
		return -1;
	}
	sp_fd_close(&to);
	sp_str_clear(out);
	if (sp_fd_slurp(in, 1 << 20, out, &e) < 0 ||
	    sp_jail_wait(pid, pidfd, 20000, &status, &e) < 0)
		printf("# %s\n", e.msg);
	return status;
}

static bool has_line(const struct sp_str *out, const char *start)
{
	sp_auto_free char *want = sp_xasprintf("\n%s", start);

	return sp_str_has_prefix(out->p, start) || strstr(out->p, want) != NULL;
}

/* Prints the attempts that worked and are not expected to; their number. */
static int count_unexpected(const struct sp_str *out, const char *const *expected)
{
	sp_auto_free char *copy = sp_xstrdup(out->p);
	char *at = copy, *line;
	int bad = 0;

	while ((line = strsep(&at, "\n"))) {
		bool fine = strncmp(line, "yes ", 4) != 0;

		for (size_t i = 0; expected[i]; i++)
			fine = fine || strcmp(line + 4, expected[i]) == 0;
		if (!fine)
			printf("# worked: %s\n", line + 4);
		bad += !fine;
	}
	return bad;
}

static void test_vmm(void)
{
	static const char *const expected[] = { NULL };
	sp_auto_str out = SP_STR_INIT;
	int ro = open(program, O_RDONLY | O_CLOEXEC), rw = memfd_create("disk", MFD_CLOEXEC);
	int keep[] = { ro, rw };
	char line[128];
	struct stat st;

	ok(ro >= 0 && rw >= 0 && ftruncate(rw, 4096) == 0, "files to hand over");
	ok(run_jailed(SP_JAIL_CALLS_VMM, keep, 2, &out) == 0 && has_line(&out, "end\n"),
	   "in the VMM's place it comes to its end");
	ok(count_unexpected(&out, expected) == 0, "nothing that it tries works");
	ok(has_line(&out, "no read:/etc/passwd"), "among it reading a file of the host");
	ok(has_line(&out, "no connect:@space-test"), "and a socket of the host");
	fstat(ro, &st);
	snprintf(line, sizeof line, "fd %d file ino=%llu no\n", ro, (unsigned long long)st.st_ino);
	ok(has_line(&out, line), "it cannot write a file that it holds read-only");
	fstat(rw, &st);
	snprintf(line, sizeof line, "fd %d file ino=%llu yes\n", rw, (unsigned long long)st.st_ino);
	ok(has_line(&out, line), "it can write its disk");
	ok(!has_line(&out, "sees /proc") && !has_line(&out, "sees /home") &&
		   has_line(&out, "sees /usr"),
	   "it sees the programs of the host and no more");
	close(ro);
	close(rw);
}

static void test_tool(void)
{
	static const char *const expected[] = { "fork", "fork-exec", NULL };
	sp_auto_str out = SP_STR_INIT;

	ok(run_jailed(SP_JAIL_CALLS_TOOL, NULL, 0, &out) == 0 && has_line(&out, "end\n"),
	   "in a tool's place it comes to its end");
	ok(count_unexpected(&out, expected) == 0, "nothing works that a tool may not");
	ok(has_line(&out, "yes fork-exec\n"), "a tool may run programs");
}

/* The fake itself: as nobody, without a jail, it must find things that work. */
static void test_control(void)
{
	const char *const argv[] = { "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
				     program,	NULL };
	sp_auto_str out = SP_STR_INIT;
	struct sp_err e;

	ok(sp_proc_run(argv, -1, &out, &e) == 0, "as nobody outside it comes to its end");
	ok(has_line(&out, "yes read:/etc/passwd\n"), "there it reads files of the host");
	ok(has_line(&out, "yes socket:unix\n"), "there it makes sockets");
	ok(has_line(&out, "yes fork-exec\n"), "there it runs programs");
	ok(has_line(&out, "yes other-processes\n"), "there it sees other processes");
	ok(has_line(&out, "yes shm\n"), "there it makes shared memory");
}

int main(void)
{
	if (skip_unless_root())
		return 0;
	if (find_program() < 0) {
		puts("Bail out! build/fakes/breakout is not built");
		return 1;
	}
	test_vmm();
	test_tool();
	test_control();
	return tap_done();
}
