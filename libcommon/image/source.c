/* SPDX-License-Identifier: Apache-2.0 */
#include "image/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "sys/fd.h"

static const struct prefix {
	const char *text;
	enum sp_source_kind kind;
	bool folder, tar; /* what it may be */
} prefixes[] = {
	{ "dir:", SP_SOURCE_ROOT, true, false },
	{ "tar:", SP_SOURCE_ROOT, false, true },
	{ "oci:", SP_SOURCE_OCI, true, true },
	{ "docker-archive:", SP_SOURCE_DOCKER, true, true },
	{ "", SP_SOURCE_AUTO, true, true },
};

void sp_source_close(struct sp_source *s)
{
	sp_fd_close(&s->fd);
}

static bool has_file(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

/* A bare folder's kind. */
static enum sp_source_kind kind_of_folder(int fd)
{
	if (has_file(fd, "oci-layout") && has_file(fd, "index.json"))
		return SP_SOURCE_OCI;
	if (has_file(fd, "manifest.json"))
		return SP_SOURCE_DOCKER;
	return SP_SOURCE_ROOT;
}

static int look(const char *text, const struct prefix *p, struct sp_source *out, struct sp_err *e)
{
	struct stat st;

	if (fstat(out->fd, &st) < 0)
		return sp_fail(e, SP_FAIL, errno, "look at '%.300s'", text);
	if (S_ISDIR(st.st_mode)) {
		if (!p->folder)
			return sp_fail(e, SP_USAGE, 0, "'%.300s' is a folder, no tar", text);
		out->folder = true;
		if (out->kind == SP_SOURCE_AUTO)
			out->kind = kind_of_folder(out->fd);
		return 0;
	}
	if (!p->tar)
		return sp_fail(e, SP_USAGE, 0, "'%.300s' is no folder", text);
	if (S_ISREG(st.st_mode)) {
		out->file = true;
		out->at = lseek(out->fd, 0, SEEK_CUR); /* standard input may stand anywhere */
		out->size = st.st_size;
		if (out->at < 0 || out->at > out->size)
			out->at = out->size;
	}
	return 0;
}

/* The longest beginning of path that is one, and the reference behind it. */
static int open_path(const char *path, struct sp_source *out, struct sp_err *e)
{
	sp_auto_str part = SP_STR_INIT;
	const char *colon = path + strlen(path);

	for (;;) {
		sp_str_clear(&part);
		sp_str_addn(&part, path, (size_t)(colon - path));
		out->fd = open(part.p, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (out->fd >= 0)
			break;
		if (errno != ENOENT && errno != ENOTDIR)
			return sp_fail(e, sp_code_of_errno(errno), errno, "open '%.300s'", part.p);
		while (colon > path && *--colon != ':')
			;
		if (colon <= path)
			return sp_fail(e, SP_ABSENT, 0, "there is no file or folder '%.300s'",
				       path);
	}
	if (!*colon)
		return 0;
	if (strlen(colon + 1) >= sizeof out->ref || !colon[1])
		return sp_fail(e, SP_USAGE, 0, "'%.200s' is no image's name", colon + 1);
	snprintf(out->ref, sizeof out->ref, "%s", colon + 1);
	return 0;
}

static int open_text(const char *text, int stdin_fd, struct sp_source *out, struct sp_err *e)
{
	const struct prefix *p = prefixes;

	while (!sp_str_has_prefix(text, p->text))
		p++;
	text += strlen(p->text);
	out->kind = p->kind;
	if (!strcmp(text, "-")) {
		if (isatty(stdin_fd))
			return sp_fail(e, SP_USAGE, 0, "standard input is a terminal, no tar");
		out->fd = sp_fd_dup(stdin_fd);
		if (out->fd < 0)
			return sp_fail(e, SP_FAIL, errno, "standard input");
	} else if (open_path(text, out, e) < 0) {
		return -1;
	}
	if (look(text, p, out, e) < 0)
		return -1;
	if (out->ref[0] && out->kind == SP_SOURCE_ROOT)
		return sp_fail(e, SP_ABSENT, 0, "there is no file or folder '%.300s'", text);
	return 0;
}

int sp_source_open(const char *text, int stdin_fd, struct sp_source *out, struct sp_err *e)
{
	memset(out, 0, sizeof *out);
	out->fd = -1;
	if (sp_ref_has_scheme(text)) {
		if (sp_ref_parse(text, &out->registry, e) < 0)
			return -1;
		out->kind = SP_SOURCE_REGISTRY;
		snprintf(out->ref, sizeof out->ref, "%s",
			 out->registry.digest[0] ? out->registry.digest : out->registry.tag);
		return 0;
	}
	if (open_text(text, stdin_fd, out, e) < 0) {
		sp_source_close(out);
		return -1;
	}
	return 0;
}
