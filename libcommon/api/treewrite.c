/* SPDX-License-Identifier: Apache-2.0 */
#include "api/treewrite.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "guest/tree.h"
#include "sys/fd.h"
#include "sys/fs.h"

#define LEVELS (SP_TREE_PATH / 2 + 2)

/* A folder that we made and that still gets entries; its mode and time are set when the stream
 * leaves it, since what is put in changes one and may need the other. */
struct level {
	size_t len; /* of its path, a prefix of `path` */
	uint32_t mode;
	int64_t mtime;
};

enum stage { IN_HEAD, IN_NAMES, IN_BYTES, AT_END, FAILED };

struct sp_treewrite {
	struct sp_treewrite_how how;
	char *top;
	enum stage stage;
	unsigned char head[SP_TREE_HEADER];
	size_t have; /* of the head, then of path and link together */
	struct sp_tree_record rec;
	uint64_t left, bytes, entries;
	char path[2 * SP_TREE_PATH]; /* of the innermost folder that was entered */
	struct level level[LEVELS];
	size_t depth;
	char parent_path[2 * SP_TREE_PATH];
	int parent; /* the folder of the record that is worked on */
	const char *base;
	char full[2 * SP_TREE_PATH];
	int file;
	char temp[40];
};

/* For the signal handler: the one file that is not in place yet. */
static volatile sig_atomic_t loose_dir = -1;
static char loose_name[40];

static void set_loose(int dir, const char *name)
{
	loose_dir = -1;
	if (name)
		snprintf(loose_name, sizeof loose_name, "%s", name);
	loose_dir = dir;
}

static void on_signal(int sig)
{
	if (loose_dir >= 0)
		unlinkat(loose_dir, loose_name, 0);
	signal(sig, SIG_DFL);
	raise(sig);
}

void sp_treewrite_tidy_on_signals(void)
{
	static const int sigs[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESETHAND }, old;

	for (size_t i = 0; i < SP_NELEM(sigs); i++)
		if (sigaction(sigs[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(sigs[i], &sa, NULL);
}

struct sp_treewrite *sp_treewrite_new(const struct sp_treewrite_how *how)
{
	struct sp_treewrite *w = sp_xcalloc(1, sizeof *w);

	w->how = *how;
	w->how.top = w->top = sp_xstrdup(how->top);
	w->parent = w->file = -1;
	return w;
}

void sp_treewrite_free(struct sp_treewrite **wp)
{
	struct sp_treewrite *w = *wp;

	if (!w)
		return;
	if (w->file >= 0 && w->temp[0])
		unlinkat(w->parent, w->temp, 0);
	set_loose(-1, NULL);
	sp_fd_close(&w->file);
	sp_fd_close(&w->parent);
	free(w->top);
	free(w);
	*wp = NULL;
}

uint64_t sp_treewrite_entries(const struct sp_treewrite *w)
{
	return w->entries;
}

static int bad(struct sp_treewrite *w, enum sp_code code, int sys, const char *what,
	       struct sp_err *e)
{
	w->stage = FAILED;
	return sp_fail(e, code, sys, "%s '%.200s'", what, w->full[0] ? w->full : ".");
}

static struct timespec time_of(int64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000), .tv_nsec = ns % 1000000000 };

	if (ts.tv_nsec < 0) {
		ts.tv_sec--;
		ts.tv_nsec += 1000000000;
	}
	return ts;
}

static int open_folder(const struct sp_treewrite *w, const char *path)
{
	return sp_fs_open_beneath(w->how.dir, path[0] ? path : ".", O_RDONLY | O_DIRECTORY, 0);
}

static int leave(struct sp_treewrite *w, struct sp_err *e)
{
	const struct level *l = &w->level[--w->depth];
	struct timespec ts[2] = { { .tv_nsec = UTIME_OMIT }, time_of(l->mtime) };
	sp_auto_fd fd = -1;

	w->path[l->len] = '\0';
	fd = open_folder(w, w->path);
	if (fd < 0 || fchmod(fd, l->mode & 01777) < 0 || futimens(fd, ts) < 0) {
		snprintf(w->full, sizeof w->full, "%s", w->path);
		return bad(w, sp_code_of_errno(errno), errno, "set the mode and time of", e);
	}
	return 0;
}

/* Is the folder `path` the same as or beneath that of the level? */
static bool is_within(const struct sp_treewrite *w, const struct level *l, const char *path)
{
	return strncmp(path, w->path, l->len) == 0 && (path[l->len] == '\0' || path[l->len] == '/');
}

/* Goes to the folder that holds w->full, leaving those that do not. */
static int enter_parent(struct sp_treewrite *w, struct sp_err *e)
{
	char *slash = strrchr(w->full, '/');
	size_t n = slash ? (size_t)(slash - w->full) : 0;
	char folder[sizeof w->full];

	memcpy(folder, w->full, n);
	folder[n] = '\0';
	w->base = slash ? slash + 1 : w->full;
	while (w->depth && !is_within(w, &w->level[w->depth - 1], folder))
		if (leave(w, e) < 0)
			return -1;
	if (w->parent >= 0 && strcmp(folder, w->parent_path) == 0)
		return 0;
	sp_fd_close(&w->parent);
	w->parent = open_folder(w, folder);
	if (w->parent < 0)
		return bad(w, errno == ELOOP || errno == ENOTDIR ? SP_CONFLICT : SP_FAIL, errno,
			   "enter the folder of", e);
	memcpy(w->parent_path, folder, n + 1);
	return 0;
}

static int put_folder(struct sp_treewrite *w, struct sp_err *e)
{
	struct stat st;
	size_t n = strlen(w->full);

	if (mkdirat(w->parent, w->base, 0700) < 0) {
		if (errno != EEXIST)
			return bad(w, sp_code_of_errno(errno), errno, "make folder", e);
		if (fstatat(w->parent, w->base, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISDIR(st.st_mode))
			return bad(w, SP_CONFLICT, ENOTDIR, "make folder", e);
		return 0; /* one that was there keeps its mode */
	}
	/* Its parent's level is the innermost one now, so what is on the stack are its prefixes. */
	memcpy(w->path, w->full, n + 1);
	w->level[w->depth++] = (struct level){ n, w->rec.mode, w->rec.mtime };
	return 0;
}

/* Over what may be replaced; a folder, a device or a fifo may not. */
static int in_place(struct sp_treewrite *w, struct sp_err *e)
{
	struct stat st;

	if (fstatat(w->parent, w->base, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode) &&
	    !S_ISLNK(st.st_mode))
		errno = S_ISDIR(st.st_mode) ? EISDIR : EEXIST;
	else if (renameat(w->parent, w->temp, w->parent, w->base) == 0)
		goto done;
	bad(w, errno == EISDIR || errno == EEXIST ? SP_CONFLICT : sp_code_of_errno(errno), errno,
	    "replace", e);
	unlinkat(w->parent, w->temp, 0);
done:
	set_loose(-1, NULL);
	w->temp[0] = '\0';
	return w->stage == FAILED ? -1 : 0;
}

static int put_link(struct sp_treewrite *w, struct sp_err *e)
{
	struct timespec ts[2] = { { .tv_nsec = UTIME_OMIT }, time_of(w->rec.mtime) };

	sp_fs_random_name(".space-cp-", w->temp);
	if (symlinkat(w->rec.link, w->parent, w->temp) < 0)
		return bad(w, sp_code_of_errno(errno), errno, "make link", e);
	utimensat(w->parent, w->temp, ts, AT_SYMLINK_NOFOLLOW);
	return in_place(w, e);
}

static int begin_file(struct sp_treewrite *w, struct sp_err *e)
{
	sp_fs_random_name(".space-cp-", w->temp);
	set_loose(w->parent, w->temp);
	w->file = openat(w->parent, w->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			 0600);
	if (w->file < 0)
		return bad(w, sp_code_of_errno(errno), errno, "create", e);
	w->left = w->rec.size;
	w->stage = IN_BYTES;
	return 0;
}

static int end_file(struct sp_treewrite *w, struct sp_err *e)
{
	struct timespec ts[2] = { { .tv_nsec = UTIME_OMIT }, time_of(w->rec.mtime) };
	int fd = sp_take_fd(&w->file);

	w->stage = IN_HEAD;
	if (fchmod(fd, w->rec.mode & 0777) < 0 || futimens(fd, ts) < 0) {
		bad(w, sp_code_of_errno(errno), errno, "set the mode and time of", e);
		unlinkat(w->parent, w->temp, 0);
		close(fd);
		return -1;
	}
	if (close(fd) < 0) { /* network file systems tell a full disk here */
		bad(w, sp_code_of_errno(errno), errno, "write", e);
		unlinkat(w->parent, w->temp, 0);
		return -1;
	}
	return in_place(w, e);
}

static int count(struct sp_treewrite *w, struct sp_err *e)
{
	if (++w->entries > w->how.max_entries)
		return bad(w, SP_DENIED, 0, "too many entries: stopped at", e);
	if (w->rec.size > w->how.max_bytes - w->bytes)
		return bad(w, SP_DENIED, 0, "too many bytes: stopped at", e);
	w->bytes += w->rec.size;
	return 0;
}

static int on_top(struct sp_treewrite *w, struct sp_err *e)
{
	if (w->rec.path_len)
		return bad(w, SP_FAIL, 0, "the tree does not begin with its top, but with", e);
	if ((w->how.folder || !w->top[0]) && w->rec.kind != 'd')
		return bad(w, SP_CONFLICT, 0, "the source is no folder, but the target is one:", e);
	return 0;
}

/* A whole record: path and link have come. */
static int on_record(struct sp_treewrite *w, struct sp_err *e)
{
	const struct sp_tree_record *r = &w->rec;

	snprintf(w->full, sizeof w->full, "%s%s%s", w->top, w->top[0] && r->path_len ? "/" : "",
		 r->path);
	w->stage = IN_HEAD;
	w->have = 0;
	if (sp_tree_check(r) < 0)
		return bad(w, SP_FAIL, 0, "the guest sent a record that is not allowed:", e);
	if (r->kind == 'e') {
		w->stage = AT_END;
		return w->entries ? 0 : bad(w, SP_FAIL, 0, "the guest sent nothing for", e);
	}
	if (count(w, e) < 0)
		return -1;
	if (w->entries == 1 && on_top(w, e) < 0)
		return -1;
	if (w->entries > 1 && !r->path_len)
		return bad(w, SP_FAIL, 0, "the guest sent the tree's top twice:", e);
	if (!w->full[0])
		return 0; /* the folder itself */
	if (enter_parent(w, e) < 0)
		return -1;
	if (r->kind == 'd')
		return put_folder(w, e);
	return r->kind == 'l' ? put_link(w, e) : begin_file(w, e);
}

/* The stages: each takes what it can of the bytes and tells how many. */

static long take_head(struct sp_treewrite *w, const unsigned char *p, size_t n, struct sp_err *e)
{
	size_t part = SP_TREE_HEADER - w->have < n ? SP_TREE_HEADER - w->have : n;

	memcpy(w->head + w->have, p, part);
	w->have += part;
	if (w->have < SP_TREE_HEADER)
		return (long)part;
	if (sp_tree_unpack(w->head, &w->rec) < 0)
		return bad(w, SP_FAIL, 0, "the guest sent what is no tree, after", e);
	w->have = 0;
	w->stage = IN_NAMES;
	return (long)part;
}

static size_t copy_part(char *to, size_t have, size_t want, const unsigned char *p, size_t n)
{
	size_t part = want - have < n ? want - have : n;

	memcpy(to + have, p, part);
	to[have + part] = '\0';
	return part;
}

static long take_names(struct sp_treewrite *w, const unsigned char *p, size_t n)
{
	struct sp_tree_record *r = &w->rec;
	size_t part;

	if (w->have < r->path_len)
		part = copy_part(r->path, w->have, r->path_len, p, n);
	else
		part = copy_part(r->link, w->have - r->path_len, r->link_len, p, n);
	w->have += part;
	return (long)part;
}

static long take_bytes(struct sp_treewrite *w, const unsigned char *p, size_t n, struct sp_err *e)
{
	size_t part = w->left < n ? (size_t)w->left : n;

	if (sp_fd_write(w->file, p, part) < 0)
		return bad(w, sp_code_of_errno(errno), errno, "write", e);
	w->left -= part;
	return (long)part;
}

/* What is due without another byte: a record whose names are all here, a file that is complete. */
static int advance(struct sp_treewrite *w, struct sp_err *e)
{
	if (w->stage == IN_NAMES && w->have == (size_t)w->rec.path_len + w->rec.link_len &&
	    on_record(w, e) < 0)
		return -1;
	return w->stage == IN_BYTES && !w->left ? end_file(w, e) : 0;
}

int sp_treewrite_feed(struct sp_treewrite *w, const void *data, size_t n, struct sp_err *e)
{
	const unsigned char *p = data;

	while (n) {
		long took;

		if (w->stage == FAILED)
			return sp_fail(e, SP_FAIL, 0, "the copy has failed already");
		if (w->stage == AT_END)
			return bad(w, SP_FAIL, 0, "the guest goes on after the end of the tree", e);
		if (w->stage == IN_HEAD)
			took = take_head(w, p, n, e);
		else if (w->stage == IN_NAMES)
			took = take_names(w, p, n);
		else
			took = take_bytes(w, p, n, e);
		if (took < 0 || advance(w, e) < 0)
			return -1;
		p += took;
		n -= (size_t)took;
	}
	return 0;
}

int sp_treewrite_end(struct sp_treewrite *w, struct sp_err *e)
{
	if (w->stage != AT_END)
		return bad(w, SP_FAIL, 0, "the tree broke off after", e);
	while (w->depth)
		if (leave(w, e) < 0)
			return -1;
	return 0;
}
