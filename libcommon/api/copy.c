/* SPDX-License-Identifier: Apache-2.0 */
#include "api/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/conn.h"
#include "api/guest.h"
#include "api/treeread.h"
#include "api/treewrite.h"
#include "sys/fd.h"

#define CHUNK (SP_G_PAYLOAD - 8)

int sp_copy_operand(const char *text, char sandbox[static SP_NAME_SIZE], const char **path)
{
	size_t n = strcspn(text, ":/");

	if (text[n] != ':' || !n || n >= SP_NAME_SIZE)
		return 0;
	memcpy(sandbox, text, n);
	sandbox[n] = '\0';
	if (!sp_id_looks_like(sandbox) && !sp_name_is_valid(sandbox))
		return 0;
	*path = text[n + 1] ? text + n + 1 : "/";
	return 1;
}

/* A path of the guest: those that are not absolute begin at its root. */
static char *guest_path(const char *path)
{
	return path[0] == '/' ? sp_xstrdup(path) : sp_xasprintf("/%s", path);
}

/* The name under which a path's file arrives in a folder; "" where it names no one thing ("/", "."
 * and ".." at its end): then its content arrives. */
static char *base_of(const char *path)
{
	size_t end = strlen(path), start;

	while (end && path[end - 1] == '/')
		end--;
	start = end;
	while (start && path[start - 1] != '/')
		start--;
	if ((end - start == 1 && path[start] == '.') ||
	    (end - start == 2 && path[start] == '.' && path[start + 1] == '.'))
		start = end;
	return sp_xasprintf("%.*s", (int)(end - start), path + start);
}

/* Begins a session; the connection is the caller's to close in any case. */
static int ask(struct sp_guest *g, struct sp_conn *c, enum sp_g_type type, const char *path,
	       const char *user, struct sp_err *e)
{
	unsigned char mem[8192];
	struct sp_fields f;
	int fd;

	sp_conn_init(c, -1);
	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_str(&f, SP_T_PATH, path);
	sp_fields_add_str(&f, SP_T_USER, user);
	if (sp_fields_end(&f) < 0)
		return sp_fail(e, SP_USAGE, 0, "the path is too long");
	fd = sp_guest_connect(g, e);
	if (fd < 0)
		return -1;
	sp_conn_init(c, fd);
	return sp_conn_ask(c, type, &f, e);
}

static int await(struct sp_conn *c, enum sp_g_type type, struct sp_err *e)
{
	const unsigned char *p;
	struct sp_g_header h = { 0 };

	if (sp_conn_wait(c, SP_CONN_PATIENCE, &h, &p, e) < 0)
		return -1;
	if (h.type != type)
		return sp_fail(e, SP_FAIL, 0, "the guest agent's answer makes no sense");
	return 0;
}

/* Out of the guest */

/* Where bytes go: a tree being written, or a descriptor. */
struct drain {
	struct sp_treewrite *tree;
	int fd;
	uint64_t got, max;
};

static int drain(struct drain *d, const unsigned char *p, size_t n, struct sp_err *e)
{
	if (n > d->max - d->got)
		return sp_fail(e, SP_DENIED, 0, "more than %llu bytes came",
			       (unsigned long long)d->max);
	d->got += n;
	if (d->tree)
		return sp_treewrite_feed(d->tree, p, n, e);
	if (sp_fd_write(d->fd, p, n) < 0)
		return sp_fail(e, SP_FAIL, errno, "write standard output");
	return 0;
}

static int receive(struct sp_conn *c, struct drain *d, struct sp_err *e)
{
	const unsigned char *p;
	struct sp_g_header h = { 0 };
	uint64_t off, told = 0;
	bool eof = false;

	if (await(c, SP_G_OPENED, e) < 0)
		return -1;
	while (sp_conn_wait(c, -1, &h, &p, e) == 1) {
		if (h.type == SP_G_END && eof)
			return 0;
		if ((h.type != SP_G_DATA && h.type != SP_G_EOF) || eof || h.stream != 1 ||
		    sp_frame_get_u64(p, h.len, &off) < 0 || off != d->got)
			return sp_fail(e, SP_FAIL, 0, "the guest agent spoke out of turn");
		eof = h.type == SP_G_EOF;
		if (!eof && drain(d, p + 8, h.len - 8, e) < 0)
			return -1;
		if (d->got - told >= SP_G_WINDOW / 4 &&
		    sp_frame_put_u64(&c->out, 0, SP_G_ACK, 1, d->got)) {
			told = d->got;
			sp_conn_flush(c);
		}
	}
	return -1;
}

/* The folder here, and the name in it, that a tree from `base` is to have. */
static int open_target(const char *to, const char *base, struct sp_treewrite_how *how, char **name,
		       struct sp_err *e)
{
	sp_auto_free char *copy = sp_xstrdup(to);
	size_t n = strlen(copy);
	struct stat st;
	char *slash;

	if (stat(to, &st) == 0 && S_ISDIR(st.st_mode)) {
		*name = sp_xstrdup(base);
		how->dir = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	} else {
		how->folder = n && copy[n - 1] == '/';
		while (n > 1 && copy[n - 1] == '/')
			copy[--n] = '\0';
		slash = strrchr(copy, '/');
		*name = sp_xstrdup(slash ? slash + 1 : copy);
		if (slash)
			*slash = '\0';
		how->dir = open(!slash ? "." : slash == copy ? "/" : copy,
				O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (how->dir < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "open the folder of '%s'", to);
	how->top = *name;
	return 0;
}

static int receive_tree(struct sp_conn *c, const struct sp_treewrite_how *how, struct sp_copy *cp,
			struct sp_err *e)
{
	struct drain d = { .tree = sp_treewrite_new(how), .max = UINT64_MAX };
	int rc = receive(c, &d, e);

	if (rc == 0)
		rc = sp_treewrite_end(d.tree, e);
	cp->entries = sp_treewrite_entries(d.tree);
	sp_treewrite_free(&d.tree);
	if (rc < 0 && cp->entries > 1)
		sp_wrap(e, "the copy in '%s' is not whole", cp->to);
	return rc;
}

int sp_copy_out(struct sp_guest *g, struct sp_copy *cp, struct sp_err *e)
{
	struct sp_treewrite_how how = { .dir = -1, .max_bytes = cp->max_bytes,
					.max_entries = cp->max_entries };
	bool stream = strcmp(cp->to, "-") == 0;
	struct drain d = { .fd = 1, .max = cp->max_bytes };
	sp_auto_free char *path = guest_path(cp->from), *base = base_of(path), *name = NULL;
	struct sp_conn c;
	int rc = 0;

	if (!stream)
		rc = open_target(cp->to, base, &how, &name, e);
	if (rc == 0) {
		rc = ask(g, &c, stream ? SP_G_READ : SP_G_GET, path, NULL, e);
		if (rc == 0)
			rc = stream ? receive(&c, &d, e) : receive_tree(&c, &how, cp, e);
		sp_conn_close(&c);
	}
	sp_fd_close(&how.dir);
	return rc;
}

/* Into the guest */

/* Where bytes come from: a tree being read, or a descriptor. */
struct source {
	struct sp_treeread *tree;
	int fd;
};

static long fill(struct source *s, void *buf, size_t n, struct sp_err *e)
{
	ssize_t got;

	if (s->tree)
		return sp_treeread_next(s->tree, buf, n, e);
	do
		got = read(s->fd, buf, n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? sp_fail(e, SP_FAIL, errno, "read standard input") : (long)got;
}

struct sending {
	uint64_t sent, acked;
	bool eof;
};

/* As much as the window has room for. Where the source fails no end is sent, so that the guest does
 * not take a part for the whole. */
static int send_some(struct sp_conn *c, struct source *s, struct sending *n, void *buf,
		     struct sp_err *e)
{
	while (!n->eof && n->sent - n->acked + CHUNK <= SP_G_WINDOW) {
		long got = fill(s, buf, CHUNK, e);

		if (got < 0)
			return -1;
		n->eof = got == 0;
		if (n->eof)
			sp_frame_put_u64(&c->out, 0, SP_G_EOF, 0, n->sent);
		else
			sp_frame_put_data(&c->out, 0, 0, n->sent, buf, (uint32_t)got);
		n->sent += (uint64_t)got;
		sp_conn_flush(c);
		if (!s->tree)
			break; /* what comes slowly is not held back for more */
	}
	return 0;
}

static int send_all(struct sp_conn *c, struct source *s, struct sp_err *e)
{
	sp_auto_free unsigned char *buf = sp_xmalloc(CHUNK);
	struct sending n = { 0 };
	const unsigned char *p;
	struct sp_g_header h = { 0 };
	int got;

	if (await(c, SP_G_OPENED, e) < 0)
		return -1;
	for (;;) {
		if (send_some(c, s, &n, buf, e) < 0)
			return -1;
		sp_conn_fill(c);
		got = sp_conn_take(c, &h, &p);
		if (!got && !c->ended && !n.eof && n.sent - n.acked + CHUNK <= SP_G_WINDOW)
			continue;
		if (!got && sp_conn_wait(c, -1, &h, &p, e) < 0)
			return -1;
		if (h.type == SP_G_ERROR || h.type == SP_G_LOST)
			return sp_conn_error(&h, p, e);
		if (h.type == SP_G_END && n.eof)
			return 0;
		if (got < 0 || h.type != SP_G_ACK || sp_frame_get_u64(p, h.len, &n.acked) < 0 ||
		    n.acked > n.sent)
			return sp_fail(e, SP_FAIL, 0, "the guest agent spoke out of turn");
	}
}

/* st_mode of a path in the guest: 1, 0 absent, -1 error. */
static int guest_mode(struct sp_guest *g, const char *path, uint32_t *mode, struct sp_err *e)
{
	const unsigned char *p;
	struct sp_g_header h = { 0 };
	struct sp_conn c;
	int rc = ask(g, &c, SP_G_STAT, path, NULL, e);

	if (rc == 0)
		rc = sp_conn_wait(&c, SP_CONN_PATIENCE, &h, &p, e);
	if (rc < 0)
		rc = c.fd >= 0 && e->code == SP_ABSENT ? 0 : -1;
	else if (h.type != SP_G_ENTRY || sp_fields_check(p, h.len) < 0)
		rc = sp_fail(e, SP_FAIL, 0, "the guest agent's answer makes no sense");
	else
		*mode = (uint32_t)sp_fields_num(p, h.len, SP_T_MODE, 0);
	sp_conn_close(&c);
	return rc;
}

/* Is it a folder there, through links too? 1, 0, -1; *there: something is. */
static int guest_is_folder(struct sp_guest *g, const char *path, bool *there, struct sp_err *e)
{
	sp_auto_free char *through = sp_xasprintf("%s/.", path);
	uint32_t mode = 0;
	int rc = guest_mode(g, path, &mode, e);

	*there = rc == 1;
	if (rc == 1 && S_ISLNK(mode)) {
		rc = guest_mode(g, through, &mode, e);
		if (rc < 0 && e->code == SP_FAIL) /* not a folder: the link leads to a file */
			return 0;
	}
	return rc == 1 ? S_ISDIR(mode) : rc;
}

static int find_target(struct sp_guest *g, const struct sp_copy *cp, bool folder, char **target,
		       struct sp_err *e)
{
	sp_auto_free char *to = guest_path(cp->to), *base = base_of(cp->from);
	size_t n = strlen(to);
	bool there;
	int rc = guest_is_folder(g, to, &there, e);

	if (rc < 0)
		return -1;
	if (rc == 0 && to[n - 1] == '/' && (there || !folder))
		return sp_fail(e, SP_CONFLICT, 0, "'%s' is no folder in the guest", cp->to);
	while (n > 1 && to[n - 1] == '/')
		to[--n] = '\0';
	if (rc == 1 && base[0])
		*target = sp_xasprintf("%s/%s", n > 1 ? to : "", base);
	else
		*target = sp_xstrdup(to);
	return 0;
}

static bool is_folder_here(const char *path)
{
	struct stat st;
	size_t n = strlen(path);

	if (!n || fstatat(AT_FDCWD, path, &st, path[n - 1] == '/' ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	return S_ISDIR(st.st_mode);
}

int sp_copy_in(struct sp_guest *g, struct sp_copy *cp, struct sp_err *e)
{
	bool stream = strcmp(cp->from, "-") == 0;
	sp_auto_free char *target = NULL;
	struct source s = { .fd = 0 };
	struct sp_conn c;
	int rc;

	if (stream) {
		target = guest_path(cp->to);
	} else {
		s.tree = sp_treeread_new(cp->from, e);
		if (!s.tree)
			return -1;
		rc = find_target(g, cp, is_folder_here(cp->from), &target, e);
		if (rc < 0) {
			sp_treeread_free(&s.tree);
			return -1;
		}
	}
	rc = ask(g, &c, stream ? SP_G_WRITE : SP_G_PUT, target, cp->user, e);
	if (rc == 0)
		rc = send_all(&c, &s, e);
	sp_conn_close(&c);
	if (s.tree)
		cp->skipped = sp_treeread_skipped(s.tree);
	sp_treeread_free(&s.tree);
	return rc;
}
