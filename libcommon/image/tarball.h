/* SPDX-License-Identifier: Apache-2.0 */
/* A tar stream that may be compressed: digest of what comes in, decompression, digest of what comes
 * out, and libarchive's tar reader behind that.
 *
 * Two archive readers in a row rather than one: between them the tar's own bytes are counted,
 * bounded and hashed (an image's diff_ids are digests of the uncompressed layers). gzip, bzip2, xz,
 * lzma, zstd, lz4 and compress are taken; filters that would run a program are not.
 */
#ifndef SP_IMAGE_TARBALL_H
#define SP_IMAGE_TARBALL_H

#include <archive.h>
#include <stdint.h>

#include "base/err.h"
#include "image/stream.h"

struct sp_tarball_want {
	const char *digest;  /* of the stream as it comes, or NULL */
	int64_t size;        /* of the stream as it comes, or -1 */
	const char *diff_id; /* digest of the tar, or NULL */
	int64_t max_tar;     /* most bytes of the tar */
};

struct sp_tarball;

/* src and pulse (may be NULL) must outlive it. */
int sp_tarball_open(struct sp_stream *src, const struct sp_tarball_want *want,
		    struct sp_pulse *pulse, struct sp_tarball **out, struct sp_err *e);
struct archive *sp_tarball_tar(struct sp_tarball *t);
/* Explains a failure of the reader got from sp_tarball_tar. Always -1. */
int sp_tarball_fail(struct sp_tarball *t, const char *what, struct sp_err *e);
/* Reads on to the end of the stream (behind a tar's end may lie padding) and compares sizes and
 * digests with what was wanted. */
int sp_tarball_end(struct sp_tarball *t, struct sp_err *e);
void sp_tarball_free(struct sp_tarball **t);
#define sp_auto_tarball __attribute__((cleanup(sp_tarball_free))) struct sp_tarball

/* Just the decompression: a stream of the tar's bytes, for a spool. */
struct sp_stream *sp_tarball_bytes(struct sp_tarball *t);
/* True where the stream was not compressed at all. */
bool sp_tarball_is_plain(struct sp_tarball *t);

/* The bytes of the entry that an archive reader stands at, as a stream. */
struct sp_entry_stream {
	struct sp_stream base;
	struct archive *a;
	const char *name; /* for messages */
};
void sp_entry_stream_init(struct sp_entry_stream *s, struct archive *a, const char *name);

/* A tar reader over a stream, nothing else; for the outer tar of an image archive. NULL: *e. The
 * stream must outlive it. The callback's own error is kept in *err_keep. */
struct sp_tar_in {
	struct sp_stream *src;
	struct sp_err err; /* msg[0]: what the stream said */
	char room[65536];
};
struct archive *sp_tar_open(struct sp_tar_in *in, struct sp_err *e);

#endif
