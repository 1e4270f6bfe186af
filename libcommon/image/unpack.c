/* SPDX-License-Identifier: Apache-2.0 */
#include "image/unpack.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "image/blobs.h"
#include "image/config.h"
#include "image/layer.h"
#include "image/msg.h"
#include "image/peek.h"
#include "image/unpack_image.h"
#include "sys/fd.h"

/* The source as a stream from its beginning, however often in a file, once in a pipe. */
struct source {
	struct sp_fd_stream pipe;
	struct sp_range_stream file;
	struct sp_stream *s;
};

static void source_open(const struct sp_unpack *u, struct source *src)
{
	if (u->tar_is_file) {
		sp_range_stream_init(&src->file, u->tar_fd, u->tar_at, u->tar_size - u->tar_at);
		src->s = &src->file.base;
	} else {
		src->s = &src->pipe.base;
	}
}

static int unpack_root(struct sp_layers *l, struct sp_stream *s, struct sp_err *e)
{
	struct sp_tarball_want want = { .size = -1, .max_tar = sp_layers_max_tar(l) };
	sp_auto_tarball *t = NULL;

	l->pulse->what = "unpacking";
	if (sp_tarball_open(s, &want, l->pulse, &t, e) < 0 || sp_layer_apply(l, t, false, e) < 0 ||
	    sp_tarball_end(t, e) < 0)
		return -1;
	return 0;
}

/* Decompresses an image archive into the spool; *n gets its length. */
static int spool(const struct sp_unpack *u, struct sp_layers *l, struct sp_stream *s, int64_t *n,
		 struct sp_err *e)
{
	struct sp_tarball_want want = { .size = -1, .max_tar = sp_layers_max_tar(l) };
	sp_auto_tarball *t = NULL;
	struct sp_stream *bytes;
	static char buf[1 << 18];
	ssize_t got;

	l->pulse->what = "reading";
	*n = 0;
	if (sp_tarball_open(s, &want, l->pulse, &t, e) < 0)
		return -1;
	bytes = sp_tarball_bytes(t);
	while ((got = bytes->read(bytes, buf, sizeof buf, e)) > 0) {
		if (sp_fd_pwrite(u->spool_fd, buf, (size_t)got, *n) < 0)
			return sp_fail(e, sp_code_of_errno(errno), errno,
				       "keep the archive in a temporary file");
		*n += got;
	}
	return got < 0 ? -1 : 0;
}

/* An archive that looks like an image: kept where it can be read twice, indexed, and taken for what
 * it holds. */
static int unpack_archive(const struct sp_unpack *u, struct sp_layers *l, struct sp_stream *s,
			  bool plain, struct sp_json **config, struct sp_err *e)
{
	sp_auto_blobs *b = NULL;
	int64_t at = u->tar_at, n = u->tar_size - u->tar_at;
	int fd = u->tar_fd;
	struct sp_range_stream again;

	if (!u->tar_is_file || !plain) {
		if (spool(u, l, s, &n, e) < 0)
			return -1;
		fd = u->spool_fd;
		at = 0;
	}
	b = sp_blobs_tar(fd, at, n, e);
	if (!b)
		return -1;
	if (u->kind != SP_SOURCE_DOCKER && sp_blobs_tar_has(b, "oci-layout") &&
	    sp_blobs_tar_has(b, "index.json"))
		return sp_image_oci(l, b, u->ref, config, e);
	if (u->kind != SP_SOURCE_OCI && sp_blobs_tar_has(b, "manifest.json"))
		return sp_image_docker(l, b, u->ref, config, e);
	if (u->kind != SP_SOURCE_AUTO)
		return sp_fail(e, SP_FAIL, 0,
			       u->kind == SP_SOURCE_OCI
				       ? "there is no oci-layout and index.json in it"
				       : "there is no manifest.json in it");
	sp_range_stream_init(&again, fd, at, n);
	return unpack_root(l, &again.base, e);
}

static int unpack_tar(const struct sp_unpack *u, struct sp_layers *l, struct sp_json **config,
		      struct sp_err *e)
{
	struct source src = { 0 };
	struct sp_peek look = { .image = u->kind == SP_SOURCE_OCI || u->kind == SP_SOURCE_DOCKER };
	struct sp_str ahead = SP_STR_INIT;
	int rc;

	sp_fd_stream_init(&src.pipe, u->tar_fd);
	source_open(u, &src);
	if (u->kind != SP_SOURCE_ROOT) {
		rc = sp_peek(src.s, &ahead, &look, e);
		src.pipe.ahead = ahead;
		if (rc < 0) {
			sp_str_free(&src.pipe.ahead);
			return -1;
		}
		source_open(u, &src); /* from the beginning again; a pipe has it in ahead */
	}
	if (look.image || (u->kind == SP_SOURCE_AUTO && look.image_name))
		rc = unpack_archive(u, l, src.s, look.plain, config, e);
	else
		rc = unpack_root(l, src.s, e);
	sp_str_free(&src.pipe.ahead);
	return rc;
}

static int unpack_parts(const struct sp_unpack *u, struct sp_layers *l, struct sp_json **config,
			struct sp_err *e)
{
	sp_auto_blobs *b = sp_blobs_ask(u->ask_sock);

	switch (u->kind) {
	case SP_SOURCE_OCI:
		return sp_image_oci(l, b, u->ref, config, e);
	case SP_SOURCE_DOCKER:
		return sp_image_docker(l, b, u->ref, config, e);
	case SP_SOURCE_REGISTRY:
		return sp_image_registry(l, b, u->ref, config, e);
	case SP_SOURCE_AUTO:
	case SP_SOURCE_ROOT:
	default:
		return sp_fail(e, SP_FAIL, 0, "a root file system has no parts");
	}
}

int sp_unpack_run(const struct sp_unpack *u, struct sp_pulse *pulse, struct sp_unpacked *out,
		  struct sp_json **config, struct sp_err *e)
{
	struct sp_pulse own = { 0 };
	struct sp_layers l = { .pulse = pulse ? pulse : &own,
			       .max_bytes = u->max_bytes,
			       .max_entries = u->max_entries };
	sp_auto_json *c = sp_config_new();
	sp_auto_ext4 *x = NULL;
	struct sp_ext4_counts counts;
	int rc;

	if (sp_ext4_open(u->disk_fd, u->max_memory, &x, e) < 0)
		return -1;
	l.x = x;
	rc = u->tar_fd >= 0 ? unpack_tar(u, &l, &c, e) : unpack_parts(u, &l, &c, e);
	if (rc < 0)
		return -1;
	l.pulse->what = "writing folders";
	if (sp_ext4_close(&x, &counts, e) < 0)
		return -1;
	*out = (struct sp_unpacked){ l.bytes, l.entries, counts.used, counts.inodes,
				     counts.big_folder };
	*config = sp_take_ptr(&c);
	return 0;
}

static void tell(const struct sp_pulse *p, void *arg)
{
	struct sp_msg m = { .kind = SP_MSG_PROGRESS, .n = { p->in, p->content } };

	snprintf(m.text, sizeof m.text, "%s", p->what ? p->what : "");
	sp_msg_send(*(int *)arg, &m, -1);
}

static int tell_end(int sock, const struct sp_unpacked *got, const struct sp_json *config)
{
	struct sp_msg m = { .kind = SP_MSG_DONE,
			    .n = { got->bytes, got->entries, got->used, got->inodes,
				   got->big_folder } };
	sp_auto_str text = SP_STR_INIT;

	sp_json_print(config, &text);
	return sp_msg_send_config(sock, text.p, text.len) < 0 || sp_msg_send(sock, &m, -1) < 0;
}

int sp_unpack_main(const struct sp_unpack *u, int sock)
{
	struct sp_pulse pulse = { .beat = tell, .arg = &sock };
	sp_auto_json *config = NULL;
	struct sp_err e = { SP_FAIL, 0, "" };
	struct sp_unpacked got;

	/* a file that grows past its limit is an error to report, not the end */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (sp_unpack_run(u, &pulse, &got, &config, &e) < 0) {
		sp_msg_send_fail(sock, &e);
		return 1;
	}
	return tell_end(sock, &got, config);
}
