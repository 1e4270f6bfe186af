/* SPDX-License-Identifier: Apache-2.0 */
/* Processes: known by more than a pid, begun without what is ours, programs run to their end. */
#include <errno.h>
#include <libgen.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/proc.h"
#include "tap.h"
#include "tmp.h"

static void identity(void)
{
	struct sp_proc_id me, child, other;
	struct sp_err e;
	pid_t pid;
	int fd;

	ok(sp_proc_identify(0, &me, &e) == 0 && me.pid == getpid() && me.start > 0, "ourselves");
	is_str(me.boot, sp_clock_boot_id(), "of this boot");
	ok(sp_proc_is_alive(&me), "alive");
	pid = fork();
	if (!pid) {
		prctl(PR_SET_NAME, "a) R 1 (b");
		pause();
		_exit(0);
	}
	usleep(20000);
	ok(sp_proc_identify(pid, &child, &e) == 0 && child.start >= me.start,
	   "a name with brackets and spaces");
	other = child;
	other.start++;
	ok(!sp_proc_is_alive(&other) && errno == ESRCH, "another start time: another process");
	ok(sp_proc_kill(&other, SIGKILL, &e) == 0 && sp_proc_is_alive(&child), "not signalled");
	other = child;
	other.boot[0] ^= 1;
	ok(!sp_proc_is_alive(&other), "another boot: another process");
	fd = sp_proc_open(&child);
	ok(fd >= 0 && sp_proc_await(fd, 20) == 0, "it lives on");
	ok(sp_proc_kill(&child, SIGTERM, &e) == 0 && sp_proc_await(fd, 5000) == 1,
	   "until signalled");
	ok(!sp_proc_is_alive(&child), "a zombie is gone");
	ok(sp_proc_kill(&child, SIGTERM, &e) == 0, "signalling what is gone is success");
	close(fd);
	waitpid(pid, NULL, 0);
	ok(sp_proc_identify(pid, &child, &e) == -1 && e.code == SP_ABSENT, "reaped: absent");
}

static void programs(void)
{
	const char *good[] = { "sh", "-c", "echo out; echo err >&2", NULL };
	const char *bad[] = { "sh", "-c", "echo first; echo 'the reason'; echo; exit 3", NULL };
	const char *mute[] = { "/bin/sh", "-c", "exit 9", NULL };
	const char *killed[] = { "sh", "-c", "kill -9 $$", NULL };
	const char *none[] = { "no-such-program-here", NULL };
	const char *loud[] = { "sh", "-c", "yes 0123456789 | head -c 300000", NULL };
	const char *cat[] = { "cat", NULL };
	const char *leaves[] = { "sh", "-c", "sleep 3 & echo begun", NULL };
	sp_auto_str out = SP_STR_INIT;
	struct sp_err e;
	int64_t t;
	int p[2];

	ok(sp_proc_run(good, -1, &out, &e) == 0, "run");
	is_str(out.p, "out\nerr\n", "both outputs");
	ok(sp_proc_run(bad, -1, NULL, &e) == -1 && e.code == SP_FAIL, "a bad end");
	is_str(e.msg, "sh: the reason", "its last line");
	ok(sp_proc_run(mute, -1, NULL, &e) == -1, "a mute one");
	is_str(e.msg, "sh ended with status 9", "its status");
	ok(sp_proc_run(killed, -1, NULL, &e) == -1, "a killed one");
	is_str(e.msg, "sh was killed by signal 9", "its signal");
	ok(sp_proc_run(none, -1, NULL, &e) == -1 && e.code == SP_HOST, "none: the host lacks it");
	is_str(e.msg, "run 'no-such-program-here': No such file or directory", "and which");
	sp_str_clear(&out);
	sp_str_add(&out, "kept:");
	ok(sp_proc_run(loud, -1, &out, &e) == 0 && out.len == 65536 + 5,
	   "much output: cut, not stuck");
	sp_str_clear(&out);
	ok(sp_proc_run(cat, -1, &out, &e) == 0 && out.len == 0, "no standard input: an empty one");
	if (pipe2(p, O_CLOEXEC) == 0 && write(p[1], "in", 2) == 2) {
		close(p[1]);
		ok(sp_proc_run(cat, p[0], &out, &e) == 0, "standard input");
		is_str(out.p, "in", "comes through");
		close(p[0]);
	}
	t = sp_clock_mono();
	sp_str_clear(&out);
	ok(sp_proc_run(leaves, -1, &out, &e) == 0 && sp_clock_mono() - t < 2000000000,
	   "one left behind with the pipe does not hold us up");
	is_str(out.p, "begun\n", "and nothing is lost");
}

struct worker {
	int say, closed, dir;
};

static int work(void *arg)
{
	struct worker *w = arg;
	sigset_t set;
	bool good;
	char cwd[8] = "";

	sigprocmask(SIG_BLOCK, NULL, &set);
	good = getsid(0) != getpid() /* not a leader: no terminal can become ours */ &&
	       fcntl(w->closed, F_GETFD) < 0 && isatty(0) == 0 && fcntl(0, F_GETFD) >= 0 &&
	       fcntl(1, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0 && fcntl(3, F_GETFD) < 0 &&
	       !sigismember(&set, SIGUSR1) && signal(SIGPIPE, SIG_DFL) == SIG_DFL &&
	       getcwd(cwd, sizeof cwd) && strcmp(cwd, "/") == 0;
	if (write(w->say, good ? "y" : "n", 1) != 1)
		return 1;
	usleep(50000);
	return 0;
}

static void workers(int dir)
{
	struct sp_proc_id id;
	struct worker w;
	struct sp_err e;
	sigset_t set;
	int p[2], fd, keep[2];
	char c = 0;

	if (pipe2(p, O_CLOEXEC) < 0)
		return;
	w.say = fcntl(p[1], F_DUPFD_CLOEXEC, 100);
	w.closed = fcntl(p[1], F_DUPFD_CLOEXEC, 50);
	w.dir = fcntl(dir, F_DUPFD_CLOEXEC, 20);
	keep[0] = w.say;
	keep[1] = w.dir;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	ok(sp_proc_detach(work, &w, keep, 2, &id, &e) == 0, "a worker begins");
	close(p[1]);
	close(w.say);
	close(w.closed);
	ok(sp_proc_is_alive(&id) && waitpid(id.pid, NULL, WNOHANG) == -1,
	   "known, and no child of ours");
	fd = sp_proc_open(&id);
	ok(read(p[0], &c, 1) == 1 && c == 'y', "only what it keeps, nothing of our signals");
	ok(sp_proc_await(fd, 5000) == 1 && read(p[0], &c, 1) == 0, "it ends");
	ok(waitpid(-1, NULL, 0) == -1 && errno == ECHILD, "no child is left to reap");
	close(fd);
	close(p[0]);
	close(w.dir);
}

static int child_caps(uint64_t keep, uint64_t want)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct d[2];
	struct sp_err e;
	int status;
	pid_t pid = fork();

	if (!pid) {
		bool good = sp_priv_keep(keep, &e) == 0 && syscall(SYS_capget, &h, d) == 0 &&
			    (d[0].permitted | (uint64_t)d[1].permitted << 32) == want &&
			    (d[0].effective | (uint64_t)d[1].effective << 32) == want &&
			    !d[0].inheritable && !d[1].inheritable &&
			    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;

		if (good && geteuid() == 0)
			good = prctl(PR_CAPBSET_READ, CAP_SYS_BOOT, 0, 0, 0) == 0;
		sp_proc_exit(good ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	return status;
}

static void privilege(void)
{
	uint64_t one = UINT64_C(1) << CAP_DAC_OVERRIDE, high = UINT64_C(1)
							       << CAP_CHECKPOINT_RESTORE;
	bool root = geteuid() == 0 && prctl(PR_CAPBSET_READ, CAP_CHECKPOINT_RESTORE, 0, 0, 0) == 1;

	ok(child_caps(0, 0) == 0, "none are kept");
	if (root)
		ok(child_caps(one | high, one | high) == 0, "two are");
	else
		tap_skip("two are", "needs root");
}

static void helpers(void)
{
	char path[4096], exe[4096], small[4];
	struct sp_err e;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

	exe[n > 0 ? n : 0] = '\0';
	ok(sp_proc_helper(basename(exe), path, sizeof path, &e) == 0 && strstr(path, "test_proc"),
	   "beside ourselves");
	ok(sp_proc_helper("space-no-such", path, sizeof path, &e) == -1 && e.code == SP_HOST,
	   "none");
	ok(sp_proc_helper(basename(exe), small, sizeof small, &e) == -1, "no room for the path");
}

int main(void)
{
	int dir = tmp_make();

	identity();
	programs();
	workers(dir);
	privilege();
	helpers();
	tmp_clear();
	return tap_done();
}
