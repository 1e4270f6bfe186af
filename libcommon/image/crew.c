/* SPDX-License-Identifier: Apache-2.0 */
#include "image/crew.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "image/msg.h"
#include "image/oci.h"
#include "image/registry.h"
#include "image/walk.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/proc.h"

#define UNPACK_MEMORY (3ULL << 30)
#define UNPACK_NAMES (1UL << 30) /* of it, for the names in an image */
#define FETCH_MEMORY (1ULL << 30)
#define CPU_S 3600
#define JOIN_MS 20000

static int make_pair(int *one, int *two, struct sp_err *e)
{
	int p[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p) < 0)
		return sp_fail(e, SP_FAIL, errno, "make a socket pair");
	*one = p[0];
	*two = p[1];
	return 0;
}

/* --- the unpacker --- */

struct unpack_arg {
	struct sp_unpack u;
	int sock;
};

static int unpack_fn(void *arg)
{
	struct unpack_arg *a = arg;

	return sp_unpack_main(&a->u, a->sock);
}

static int start_unpacker(struct sp_crew *c, const struct sp_crew_plan *plan, int tar_fd, int ask,
			  struct sp_err *e)
{
	const struct sp_source *s = plan->source;
	sp_auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC), theirs = -1;
	const int stdio[3] = { null, null, null };
	int64_t most = plan->disk_size > plan->max_bytes ? plan->disk_size : plan->max_bytes;
	struct unpack_arg a = { .u = { .kind = s->kind,
				       .tar_fd = tar_fd,
				       .tar_is_file = s->file,
				       .tar_at = s->at,
				       .tar_size = s->size,
				       .spool_fd = c->spool,
				       .ask_sock = ask,
				       .ref = s->ref[0] ? s->ref : NULL,
				       .disk_fd = plan->disk_fd,
				       .max_bytes = plan->max_bytes,
				       .max_entries = plan->max_entries,
				       .max_memory = UNPACK_NAMES } };
	int keep[6], n = 0;
	struct sp_jail j = { .uid = plan->slot->uid[0],
			     .calls = SP_JAIL_CALLS_READER, /* a parser that is sent descriptors */
			     .netns_fd = -1,
			     .max_memory = UNPACK_MEMORY,
			     .max_file =
				     (uint64_t)most * 2, /* a spool has the tar's own bytes too */
			     .max_files = 64,
			     .max_cpu_s = CPU_S,
			     .keep = keep,
			     .stdio = stdio };

	if (null < 0)
		return sp_fail(e, SP_FAIL, errno, "open /dev/null");
	if (make_pair(&c->unpacker.sock, &theirs, e) < 0)
		return -1;
	a.sock = theirs;
	keep[n++] = plan->disk_fd;
	keep[n++] = theirs;
	if (tar_fd >= 0)
		keep[n++] = tar_fd;
	if (c->spool >= 0)
		keep[n++] = c->spool;
	if (ask >= 0)
		keep[n++] = ask;
	j.nkeep = (size_t)n;
	c->unpacker.pid = sp_jail_run(&j, unpack_fn, &a, &c->unpacker.pidfd, e);
	return c->unpacker.pid < 0 ? -1 : 0;
}

/* --- the fetcher --- */

struct fetch_arg {
	struct sp_fetch f;
	int sock;
};

static int fetch_fn(void *arg)
{
	struct fetch_arg *a = arg;

	return sp_fetch_main(&a->f, a->sock);
}

/* What name resolution and TLS read; only what the host has can be bound. */
static const char *const net_files[] = {
	"/etc/resolv.conf",
	"/etc/hosts",
	"/etc/nsswitch.conf",
	"/etc/host.conf",
	"/etc/gai.conf",
	"/etc/ssl/certs",
	"/etc/ssl/openssl.cnf",
	"/usr/share/ca-certificates",
	"/usr/local/share/ca-certificates",
};

static int start_fetcher(struct sp_crew *c, const struct sp_crew_plan *plan, int sock,
			 struct sp_err *e)
{
	sp_auto_free struct sp_jail_bind *binds =
		sp_xcalloc(SP_NELEM(net_files) + 1, sizeof *binds);
	sp_auto_fd null = open("/dev/null", O_RDWR | O_CLOEXEC), auth = -1, ca = -1;
	const char *ca_path = getenv("SSL_CERT_FILE"); /* as OpenSSL, curl and Go have it */
	const int stdio[3] = { null, null, null };
	struct fetch_arg a = { .f = { .ref = plan->source->registry, .auth_fd = -1 },
			       .sock = sock };
	int keep[2] = { sock, -1 };
	struct sp_jail j = { .uid = plan->slot->uid[1],
			     .calls = SP_JAIL_CALLS_FETCH,
			     .net = true,
			     .netns_fd = -1,
			     .binds = binds,
			     .host_programs = true,
			     .dev = true,
			     .max_memory = FETCH_MEMORY,
			     .max_files = 128,
			     .max_procs = 8,
			     .max_cpu_s = CPU_S,
			     .keep = keep,
			     .nkeep = 1,
			     .stdio = stdio };

	for (size_t i = 0; i < SP_NELEM(net_files); i++)
		if (access(net_files[i], R_OK) == 0)
			binds[j.nbinds++] = (struct sp_jail_bind){ -1, net_files[i], net_files[i],
								   false, false };
	if (ca_path && *ca_path) {
		ca = open(ca_path, O_PATH | O_CLOEXEC);
		if (ca < 0)
			return sp_fail(e, SP_USAGE, errno, "SSL_CERT_FILE '%.300s'", ca_path);
		binds[j.nbinds++] = (struct sp_jail_bind){ ca, NULL, "/ca.pem", false, false };
		a.f.ca_file = "/ca.pem";
	}
	if (plan->auth_file) {
		auth = open(plan->auth_file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (auth < 0)
			return sp_fail(e, sp_code_of_errno(errno), errno, "credentials '%.300s'",
				       plan->auth_file);
		a.f.auth_fd = auth;
		keep[j.nkeep++] = auth;
	}
	c->fetcher.pid = sp_jail_run(&j, fetch_fn, &a, &c->fetcher.pidfd, e);
	return c->fetcher.pid < 0 ? -1 : 0;
}

/* --- the walker --- */

static _Noreturn void walker(int folder, int out, int sock, pid_t parent)
{
	struct sp_msg done = { .kind = SP_MSG_DONE };
	struct sp_err e = { SP_FAIL, 0, "" };
	int fds[3], n = 0;

	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		sp_proc_exit(1);
	/* onto three numbers in a row, so that the rest can go */
	fds[n++] = fcntl(folder, F_DUPFD_CLOEXEC, 100);
	fds[n++] = fcntl(out, F_DUPFD_CLOEXEC, 100);
	fds[n++] = fcntl(sock, F_DUPFD_CLOEXEC, 100);
	for (int i = 0; i < n; i++)
		if (fds[i] < 0 || dup2(fds[i], 3 + i) < 0)
			sp_proc_exit(1);
	sp_fd_close_from(3 + n);
	if (sp_priv_keep(1ULL << CAP_DAC_READ_SEARCH, &e) == 0 && sp_walk_run(3, 4, &e) == 0) {
		close(4);
		sp_msg_send(5, &done, -1);
		sp_proc_exit(0);
	}
	sp_msg_send_fail(5, &e);
	sp_proc_exit(1);
}

static int start_walker(struct sp_crew *c, int folder, int *tar, struct sp_err *e)
{
	sp_auto_fd out = -1, theirs = -1;
	pid_t self = getpid();
	int p[2];

	if (make_pair(&c->walker.sock, &theirs, e) < 0)
		return -1;
	if (pipe2(p, O_CLOEXEC) < 0)
		return sp_fail(e, SP_FAIL, errno, "make a pipe");
	*tar = p[0];
	out = p[1];
	fcntl(out, F_SETPIPE_SZ, 1 << 20); /* less would only be slower */
	c->walker.pid = fork();
	if (c->walker.pid < 0)
		return sp_fail(e, SP_FAIL, errno, "start a process");
	if (c->walker.pid == 0)
		walker(folder, out, theirs, self);
	c->walker.pidfd = pidfd_open(c->walker.pid, 0);
	return c->walker.pidfd < 0 ? sp_fail(e, SP_FAIL, errno, "open a process") : 0;
}

/* --- all of them --- */

/* A nameless file, where temporary files go. */
static int open_spool(struct sp_err *e)
{
	const char *dir = getenv("TMPDIR");
	int fd;

	if (!dir || dir[0] != '/')
		dir = "/var/tmp";
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		return sp_fail(e, SP_HOST, errno, "make a temporary file in '%.300s'", dir);
	return fd;
}

int sp_crew_start(struct sp_crew *c, const struct sp_crew_plan *plan, struct sp_err *e)
{
	const struct sp_source *s = plan->source;
	sp_auto_fd tar = -1, ask = -1, theirs = -1;

	if (s->folder && s->kind == SP_SOURCE_ROOT) {
		if (start_walker(c, s->fd, &tar, e) < 0)
			return -1;
	} else if (s->folder) {
		if (make_pair(&c->ask, &ask, e) < 0)
			return -1;
	} else if (s->kind == SP_SOURCE_REGISTRY) {
		if (make_pair(&ask, &theirs, e) < 0 || start_fetcher(c, plan, theirs, e) < 0)
			return -1;
	} else {
		tar = sp_fd_dup(s->fd);
		if (tar < 0)
			return sp_fail(e, SP_FAIL, errno, "the source");
		if (s->kind != SP_SOURCE_ROOT && (c->spool = open_spool(e)) < 0)
			return -1;
	}
	return start_unpacker(c, plan, tar, ask, e);
}

static void end_member(struct sp_member *m)
{
	if (m->pid > 0) {
		if (m->pidfd >= 0)
			pidfd_send_signal(m->pidfd, SIGKILL, NULL, 0);
		else
			kill(m->pid, SIGKILL); /* our own child, not yet waited for */
		while (waitpid(m->pid, NULL, 0) < 0 && errno == EINTR)
			;
		m->pid = 0;
	}
	sp_fd_close(&m->pidfd);
	sp_fd_close(&m->sock);
}

void sp_crew_end(struct sp_crew *c)
{
	end_member(&c->unpacker);
	end_member(&c->fetcher);
	end_member(&c->walker);
	sp_fd_close(&c->ask);
	sp_fd_close(&c->spool);
}

int sp_crew_join(struct sp_member *m, const char *who, struct sp_err *e)
{
	int status = 0, rc = sp_jail_wait(m->pid, m->pidfd, JOIN_MS, &status, e);

	m->pid = 0;
	if (rc < 0)
		return sp_wrap(e, "%s", who);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return sp_fail(e, SP_FAIL, 0,
			       "%s was killed: it may have taken more than %d s of "
			       "processor time",
			       who, CPU_S);
	if (WIFSIGNALED(status))
		return sp_fail(e, SP_FAIL, 0,
			       "%s died of signal %d: the source may want more memory than "
			       "it is given",
			       who, WTERMSIG(status));
	if (WEXITSTATUS(status) != 0)
		return sp_fail(e, SP_FAIL, 0, "%s ended with %d", who, WEXITSTATUS(status));
	return 0;
}

static int supply_fd(int folder, const char *name, int64_t *size, struct sp_err *e)
{
	struct stat st;
	int fd;

	if (!sp_oci_name_is_valid(name))
		return sp_fail(e, SP_FAIL, 0, "'%.200s' is no name of a part", name);
	fd = sp_fs_open_beneath(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	if (fd < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "open '%.200s'", name);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return sp_fail(e, SP_FAIL, 0, "'%.200s' is no file", name);
	}
	*size = st.st_size;
	return fd;
}

int sp_crew_supply(struct sp_crew *c, int folder_fd, struct sp_err *e)
{
	struct sp_msg m, give = { .kind = SP_MSG_GIVE };
	struct sp_err why;
	sp_auto_fd fd = -1;
	int got = sp_msg_recv(c->ask, &m, NULL, NULL, e);

	if (got <= 0)
		return got;
	if (m.kind != SP_MSG_ASK)
		return sp_fail(e, SP_FAIL, 0, "the unpacking process asks for nothing");
	fd = supply_fd(folder_fd, m.text, &give.n[0], &why);
	/* when it is gone its end says so */
	if (fd < 0)
		sp_msg_send_fail(c->ask, &why);
	else
		sp_msg_send(c->ask, &give, fd);
	return 1;
}
