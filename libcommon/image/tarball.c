/* SPDX-License-Identifier: Apache-2.0 */
#include "image/tarball.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "image/digest.h"

struct sp_tarball {
	struct sp_stream base; /* the decompressed bytes */
	struct sp_tarball_want want;
	struct sp_pulse *pulse;
	struct sp_stream *src;
	struct archive *raw, *tar;
	struct sp_hash *in_hash, *out_hash;
	int64_t in, out;
	bool src_end, out_end;
	struct sp_err err; /* msg[0]: what really went wrong, behind libarchive's back */
	unsigned char room[65536];
	const unsigned char *rest; /* of a block that base.read gave out in part */
	size_t rest_n;
};

/* The source's bytes on their way into decompression. */
static la_ssize_t give_raw(struct archive *a, void *arg, const void **buf)
{
	struct sp_tarball *t = arg;
	ssize_t n = t->src->read(t->src, t->room, sizeof t->room, &t->err);

	if (n < 0) {
		archive_set_error(a, EIO, "%s", t->err.msg);
		return -1;
	}
	if (n == 0)
		t->src_end = true;
	t->in += n;
	if (t->want.size >= 0 && t->in > t->want.size) {
		sp_fail(&t->err, SP_FAIL, 0, "it is longer than the %lld bytes announced",
			(long long)t->want.size);
		archive_set_error(a, EIO, "%s", t->err.msg);
		return -1;
	}
	if (t->in_hash)
		sp_hash_add(t->in_hash, t->room, (size_t)n);
	if (t->pulse) {
		t->pulse->in += n;
		sp_pulse_beat(t->pulse);
	}
	*buf = t->room;
	return n;
}

/* One block of decompressed bytes: 1 got, 0 end, -1 error. */
static int next_block(struct sp_tarball *t, const void **buf, size_t *n)
{
	la_int64_t at;
	int rc = archive_read_data_block(t->raw, buf, n, &at);

	if (rc == ARCHIVE_EOF) {
		t->out_end = true;
		return 0;
	}
	if (rc == ARCHIVE_RETRY || rc < ARCHIVE_WARN) {
		if (!t->err.msg[0])
			sp_fail(&t->err, SP_FAIL, 0, "decompress: %s",
				archive_error_string(t->raw) ? archive_error_string(t->raw) : "?");
		return -1;
	}
	t->out += (int64_t)*n;
	if (t->out > t->want.max_tar)
		return sp_fail(&t->err, SP_FAIL, 0, "it unpacks to more than %lld bytes",
			       (long long)t->want.max_tar);
	if (t->out_hash)
		sp_hash_add(t->out_hash, *buf, *n);
	return 1;
}

/* The tar's bytes on their way to the tar reader. */
static la_ssize_t give_tar(struct archive *a, void *arg, const void **buf)
{
	struct sp_tarball *t = arg;
	size_t n = 0;
	int got = 0;

	if (t->rest_n) {
		*buf = t->rest;
		n = t->rest_n;
		t->rest_n = 0;
		return (la_ssize_t)n;
	}
	while (!t->out_end && (got = next_block(t, buf, &n)) > 0 && !n)
		;
	if (got < 0) {
		archive_set_error(a, EIO, "%s", t->err.msg);
		return -1;
	}
	return got ? (la_ssize_t)n : 0;
}

static ssize_t bytes_read(struct sp_stream *base, void *buf, size_t n, struct sp_err *e)
{
	struct sp_tarball *t = (struct sp_tarball *)base;
	const void *p;
	int got;

	while (!t->rest_n) {
		if (t->out_end)
			return 0;
		got = next_block(t, &p, &t->rest_n);
		t->rest = p;
		if (got < 0) {
			*e = t->err;
			return -1;
		}
		if (!got)
			t->rest_n = 0;
	}
	if (n > t->rest_n)
		n = t->rest_n;
	memcpy(buf, t->rest, n);
	t->rest += n;
	t->rest_n -= n;
	return (ssize_t)n;
}

static int open_raw(struct sp_tarball *t, struct sp_err *e)
{
	struct archive_entry *ae;
	int rc;

	t->raw = archive_read_new();
	if (!t->raw)
		abort(); /* out of memory */
	archive_read_support_filter_gzip(t->raw);
	archive_read_support_filter_bzip2(t->raw);
	archive_read_support_filter_xz(t->raw);
	archive_read_support_filter_lzma(t->raw);
	archive_read_support_filter_zstd(t->raw);
	archive_read_support_filter_lz4(t->raw);
	archive_read_support_filter_compress(t->raw);
	archive_read_support_format_raw(t->raw);
	archive_read_support_format_empty(t->raw);
	rc = archive_read_open(t->raw, t, NULL, give_raw, NULL);
	if (rc == ARCHIVE_OK)
		rc = archive_read_next_header(t->raw, &ae);
	if (rc == ARCHIVE_EOF) {
		t->out_end = true;
		return 0;
	}
	if (rc < ARCHIVE_WARN) {
		if (t->err.msg[0])
			*e = t->err;
		else
			sp_fail(e, SP_FAIL, 0, "decompress: %s",
				archive_error_string(t->raw) ? archive_error_string(t->raw) : "?");
		return -1;
	}
	return 0;
}

int sp_tarball_open(struct sp_stream *src, const struct sp_tarball_want *want,
		    struct sp_pulse *pulse, struct sp_tarball **out, struct sp_err *e)
{
	sp_auto_tarball *t = sp_xcalloc(1, sizeof *t);

	t->base.read = bytes_read;
	t->src = src;
	t->want = *want;
	t->pulse = pulse;
	if (want->digest)
		t->in_hash = sp_hash_new(want->digest);
	if (want->diff_id)
		t->out_hash = sp_hash_new(want->diff_id);
	if (open_raw(t, e) < 0)
		return -1;
	*out = sp_take_ptr(&t);
	return 0;
}

struct archive *sp_tarball_tar(struct sp_tarball *t)
{
	if (t->tar)
		return t->tar;
	t->tar = archive_read_new();
	if (!t->tar)
		abort(); /* out of memory */
	archive_read_support_format_tar(t->tar);
	archive_read_support_format_empty(t->tar);
	/* what goes wrong here shows at the first header too */
	archive_read_open(t->tar, t, NULL, give_tar, NULL);
	return t->tar;
}

struct sp_stream *sp_tarball_bytes(struct sp_tarball *t)
{
	return &t->base;
}

bool sp_tarball_is_plain(struct sp_tarball *t)
{
	/* the last filter is always "none", the source itself */
	return archive_filter_count(t->raw) <= 1;
}

int sp_tarball_fail(struct sp_tarball *t, const char *what, struct sp_err *e)
{
	const char *why = archive_error_string(t->tar);

	if (t->err.msg[0]) {
		*e = t->err;
		return sp_wrap(e, "%s", what);
	}
	return sp_fail(e, SP_FAIL, 0, "%s: %s", what, why ? why : "unknown error");
}

static int drain(struct sp_tarball *t, struct sp_err *e)
{
	const void *buf;
	size_t n;
	int got = 1;

	while (!t->out_end && got > 0)
		got = next_block(t, &buf, &n);
	while (got >= 0 && !t->src_end) /* bytes behind the compressed stream */
		if (give_raw(t->raw, t, &buf) < 0)
			got = -1;
	if (got < 0)
		*e = t->err;
	return got < 0 ? -1 : 0;
}

int sp_tarball_end(struct sp_tarball *t, struct sp_err *e)
{
	char got[SP_DIGEST_SIZE];

	if (drain(t, e) < 0)
		return -1;
	if (t->want.size >= 0 && t->in != t->want.size)
		return sp_fail(e, SP_FAIL, 0, "it has %lld bytes, announced were %lld",
			       (long long)t->in, (long long)t->want.size);
	if (t->in_hash) {
		sp_hash_end(t->in_hash, got);
		if (strcmp(got, t->want.digest) != 0)
			return sp_fail(e, SP_FAIL, 0, "its digest is %s", got);
	}
	if (t->out_hash) {
		sp_hash_end(t->out_hash, got);
		if (strcmp(got, t->want.diff_id) != 0)
			return sp_fail(e, SP_FAIL, 0, "unpacked, its digest is %s and not %s", got,
				       t->want.diff_id);
	}
	return 0;
}

void sp_tarball_free(struct sp_tarball **tp)
{
	struct sp_tarball *t = *tp;

	if (!t)
		return;
	if (t->tar)
		archive_read_free(t->tar);
	if (t->raw)
		archive_read_free(t->raw);
	sp_hash_free(&t->in_hash);
	sp_hash_free(&t->out_hash);
	free(t);
	*tp = NULL;
}

static ssize_t entry_read(struct sp_stream *base, void *buf, size_t n, struct sp_err *e)
{
	struct sp_entry_stream *s = (struct sp_entry_stream *)base;
	la_ssize_t got = archive_read_data(s->a, buf, n);

	if (got < 0)
		return sp_fail(e, SP_FAIL, 0, "read '%.200s': %s", s->name,
			       archive_error_string(s->a) ? archive_error_string(s->a) : "?");
	return got;
}

void sp_entry_stream_init(struct sp_entry_stream *s, struct archive *a, const char *name)
{
	*s = (struct sp_entry_stream){ .base.read = entry_read, .a = a, .name = name };
}

static la_ssize_t give_stream(struct archive *a, void *arg, const void **buf)
{
	struct sp_tar_in *in = arg;
	ssize_t n = in->src->read(in->src, in->room, sizeof in->room, &in->err);

	if (n < 0)
		archive_set_error(a, EIO, "%s", in->err.msg);
	*buf = in->room;
	return n < 0 ? -1 : n;
}

static la_int64_t skip_stream(struct archive *a, void *arg, la_int64_t n)
{
	struct sp_tar_in *in = arg;

	(void)a;
	return in->src->skip ? in->src->skip(in->src, n) : 0;
}

struct archive *sp_tar_open(struct sp_tar_in *in, struct sp_err *e)
{
	struct archive *a = archive_read_new();

	if (!a)
		abort(); /* out of memory */
	in->err.msg[0] = '\0';
	archive_read_support_format_tar(a);
	archive_read_support_format_empty(a);
	if (archive_read_open2(a, in, NULL, give_stream, skip_stream, NULL) == ARCHIVE_OK)
		return a;
	sp_fail(e, SP_FAIL, 0, "no tar: %s",
		archive_error_string(a) ? archive_error_string(a) : "?");
	archive_read_free(a);
	return NULL;
}
