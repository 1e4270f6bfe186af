/* SPDX-License-Identifier: Apache-2.0 */
/* The unpacking side of an import: foreign archives and documents in, an ext4 disk out. Runs
 * confined; everything it needs are descriptors that are open already.
 */
#ifndef SP_IMAGE_UNPACK_H
#define SP_IMAGE_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "image/stream.h"
#include "text/json.h"

enum sp_source_kind {
	SP_SOURCE_AUTO,   /* a tar of whatever kind: found out from its names */
	SP_SOURCE_ROOT,   /* a tar that is a root file system */
	SP_SOURCE_OCI,    /* an image layout */
	SP_SOURCE_DOCKER, /* a docker archive */
	SP_SOURCE_REGISTRY,
};

struct sp_unpack {
	enum sp_source_kind kind;
	int tar_fd;       /* the tar, or -1: the parts are asked for */
	bool tar_is_file; /* bytes [tar_at, tar_size) of a regular file; else a stream */
	int64_t tar_at, tar_size;
	int spool_fd;    /* an empty file for an archive that has to be read twice */
	int ask_sock;    /* to the supplier, or -1 */
	const char *ref; /* which image; of a registry: tag or digest; NULL: the only one */
	int disk_fd;     /* with an empty file system */
	int64_t max_bytes, max_entries;
	size_t max_memory; /* for names */
};

struct sp_unpacked {
	int64_t bytes, entries; /* content */
	int64_t used, inodes;   /* of the file system */
	int64_t big_folder;
};

/* pulse may be NULL. *config is image/config.h's form. */
int sp_unpack_run(const struct sp_unpack *u, struct sp_pulse *pulse, struct sp_unpacked *out,
		  struct sp_json **config, struct sp_err *e);

/* The whole life of the confined process: runs, and tells the parent over sock (image/msg.h).
 * Returns its exit status. */
int sp_unpack_main(const struct sp_unpack *u, int sock);

#endif
