/* SPDX-License-Identifier: Apache-2.0 */
/* The queue: owners, tickets, sequence numbers (op_int.h tells the layout). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "state/op_int.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "sys/lock.h"

#define ROOT_LOCK ".lock"
#define STAMP_LEN (2 + 36 + 1 + 16 + 1)

int sp_op_dir(const struct sp_roots *r, const char *name, struct sp_err *e)
{
	return sp_fs_open_dir(r->store, name, e);
}

bool sp_op_subject_is_valid(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

	return n > 0 && n < SP_OP_SUBJECT_SIZE && s[n] == '\0';
}

static bool hex16(const char *s, uint64_t *out)
{
	char digits[17];

	if (strspn(s, "0123456789abcdef") < 16)
		return false;
	memcpy(digits, s, 16);
	digits[16] = '\0';
	*out = strtoull(digits, NULL, 16);
	return true;
}

int sp_owner_get(int queue, const char *op, struct sp_op_owner *out)
{
	char name[SP_ID_SIZE + 1], text[128], seq[17];
	unsigned long long start;
	ssize_t n;
	int pid, used = 0;

	snprintf(name, sizeof name, ".%s", op);
	n = readlinkat(queue, name, text, sizeof text - 1);
	if (n < 0)
		return errno == ENOENT ? 0 : -1;
	text[n] = '\0';
	*out = (struct sp_op_owner){ 0 };
	if (sscanf(text, "1 %d %llu %36s %16[0-9a-f]%n", &pid, &start, out->who.boot, seq, &used) !=
		    4 ||
	    used != n || pid <= 0 || strlen(seq) != 16 || !hex16(seq, &out->seq)) {
		errno = EINVAL;
		return -1;
	}
	out->who.pid = pid;
	out->who.start = start;
	return 1;
}

int sp_owner_put(int queue, const char *op, const struct sp_op_owner *o, struct sp_err *e)
{
	char name[SP_ID_SIZE + 1], text[128], tmp[40];

	snprintf(name, sizeof name, ".%s", op);
	snprintf(text, sizeof text, "1 %d %" PRIu64 " %s %016" PRIx64, (int)o->who.pid,
		 o->who.start, o->who.boot[0] ? o->who.boot : "-", o->seq);
	if (symlinkat(text, queue, name) == 0)
		return 0;
	if (errno != EEXIST)
		return sp_fail(e, sp_code_of_errno(errno), errno, "owner of '%s'", op);
	sp_fs_random_name(SP_FS_TMP, tmp); /* safe from sweeps: the root lock is ours */
	if (symlinkat(text, queue, tmp) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "owner of '%s'", op);
	if (renameat(queue, tmp, queue, name) < 0) {
		sp_fail(e, sp_code_of_errno(errno), errno, "owner of '%s'", op);
		unlinkat(queue, tmp, 0);
		return -1;
	}
	return 0;
}

int sp_owner_open(const struct sp_proc_id *who)
{
	int fd = sp_proc_open(who);

	if (fd >= 0 && sp_proc_await(fd, 0) == 1) {
		sp_fd_close(&fd);
		errno = ESRCH;
	}
	return fd;
}

void sp_ticket_name(const struct sp_ticket *t, char out[static SP_OP_TICKET_SIZE])
{
	snprintf(out, SP_OP_TICKET_SIZE, "%s.%016" PRIx64 ".%s", t->subject, t->seq, t->op);
}

bool sp_ticket_parse(const char *name, struct sp_ticket *out)
{
	const char *dot = strchr(name, '.');

	if (!dot || dot == name || (size_t)(dot - name) >= sizeof out->subject)
		return false;
	*out = (struct sp_ticket){ 0 };
	memcpy(out->subject, name, (size_t)(dot - name));
	if (!sp_op_subject_is_valid(out->subject) || !hex16(dot + 1, &out->seq) || dot[17] != '.' ||
	    !sp_id_is_valid(dot + 18, SP_OPERATION))
		return false;
	memcpy(out->op, dot + 18, SP_ID_SIZE);
	return true;
}

int sp_ticket_make(int queue, const struct sp_ticket *t, struct sp_err *e)
{
	char name[SP_OP_TICKET_SIZE];
	sp_auto_fd fd = -1;

	sp_ticket_name(t, name);
	fd = openat(queue, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "ticket for '%s'", t->subject);
	return 0;
}

static int leave_one(int queue, const char *name, void *arg)
{
	const char *op = arg;
	struct sp_ticket t;

	if (sp_ticket_parse(name, &t) && strcmp(t.op, op) == 0)
		unlinkat(queue, name, 0);
	return 0;
}

int sp_op_leave(int queue, const char *op, struct sp_err *e)
{
	char name[SP_ID_SIZE + 1];

	if (sp_fs_each(queue, leave_one, (void *)op, e) < 0)
		return -1;
	snprintf(name, sizeof name, ".%s", op);
	if (unlinkat(queue, name, 0) < 0 && errno != ENOENT)
		return sp_fail(e, sp_code_of_errno(errno), errno, "owner of '%s'", op);
	return 0;
}

/* The stamp in the lock file, "1 <boot id, 36 wide> <seq, 16 hex>\n": the boot under which queue/
 * is valid, and the last sequence number given out. Not flushed: whoever finds another boot's, or
 * none, makes both again. */
static bool stamp_get(int lock, uint64_t *seq)
{
	char text[STAMP_LEN + 1], want[STAMP_LEN + 1];

	if (sp_fd_pread(lock, text, STAMP_LEN, 0) != STAMP_LEN)
		return false;
	text[STAMP_LEN] = '\0';
	snprintf(want, sizeof want, "1 %-36s ", sp_clock_boot_id());
	return strncmp(text, want, strlen(want)) == 0 && hex16(text + strlen(want), seq) &&
	       text[STAMP_LEN - 1] == '\n';
}

static int stamp_put(int lock, uint64_t seq, struct sp_err *e)
{
	char text[STAMP_LEN + 1];

	snprintf(text, sizeof text, "1 %-36.36s %016" PRIx64 "\n", sp_clock_boot_id(), seq);
	if (sp_fd_pwrite(lock, text, STAMP_LEN, 0) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "root lock");
	return 0;
}

int sp_op_next_seq(int lock, uint64_t *seq, struct sp_err *e)
{
	uint64_t last;

	if (!stamp_get(lock, &last))
		return sp_fail(e, SP_FAIL, 0, "root lock holds no sequence number");
	*seq = last + 1;
	return stamp_put(lock, *seq, e);
}

bool sp_op_queue_is_valid(const struct sp_roots *r)
{
	sp_auto_fd fd = openat(r->store, ROOT_LOCK, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t seq;

	return fd >= 0 && stamp_get(fd, &seq);
}

int sp_root_lock(const struct sp_roots *r, struct sp_err *e)
{
	sp_auto_fd lock = sp_lock_take(r->store, ROOT_LOCK, -1, e);
	uint64_t seq = 0;

	if (lock < 0)
		return -1;
	if (!stamp_get(lock, &seq)) {
		if (sp_op_rebuild(r, &seq, e) < 0)
			return sp_wrap(e, "operation queue");
		if (stamp_put(lock, seq, e) < 0)
			return -1;
	}
	return sp_take_fd(&lock);
}
