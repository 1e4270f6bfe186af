/* SPDX-License-Identifier: Apache-2.0 */
/* Images: a root folder, tar, OCI layout, docker archive or registry reference becomes an ext4
 * disk.
 *
 * The disk is made by mke2fs and filled with libext2fs, in the confined process: owners, modes,
 * xattrs and device nodes go into the image and never onto the host, nothing is mounted, and no
 * path of an archive is ever a path of the host. What fetches (network, credentials) and what
 * unpacks (foreign archives) are two confined processes joined by pipes; digests are checked by the
 * unpacking side's parent or in both. Whiteouts (.wh.NAME) and opaque folders (.wh..wh..opq) as in
 * the OCI image specification, layer.md.
 */
#ifndef SP_IMAGE_IMPORT_H
#define SP_IMAGE_IMPORT_H

#include <stdint.h>

#include "base/err.h"
#include "text/json.h"

struct sp_import {
	const char *source; /* as the user gave it; "-" is stdin_fd */
	int stdin_fd;
	int disk_fd;           /* empty file to become rootfs.img, in the new checkpoint's folder */
	int64_t size;          /* of the disk, bytes; 0: content + 25 % + 1 GiB, in whole MiB */
	const char *auth_file; /* docker config.json with registry credentials, or NULL */
	/* progress on a terminal: bytes in so far, and what is being done; may be NULL */
	void (*progress)(int64_t bytes, const char *what, void *arg);
	void *progress_arg;
	int64_t max_bytes;   /* most content (unpacked); 0: 64 GiB */
	int64_t max_entries; /* 0: 4,000,000 */
	/* Asked as the disk grows, ahead of what is written: may `bytes` more go to where disk_fd
	 * is? 0 yes, -1 stops the import with *e. NULL: as long as that file system has room. */
	int (*room)(int64_t bytes, void *arg, struct sp_err *e);
	void *room_arg;
};

/* Needs root, and a caller with one thread (jail/jail.h). Fills disk_fd, which belongs to a uid of
 * the jail meanwhile and ends up synced, with holes where there is nothing. *config gets
 * {"env":["K=V"],"user":"","workdir":"","entrypoint":[],"cmd":[],"ports":["80/tcp"],"source":"…",
 * "digest":"sha256:…"?} (empty where the source has none), each value checked (no NUL, bounded).
 * *content_bytes: unpacked bytes. On failure nothing but disk_fd's content has changed. */
int sp_import_run(const struct sp_import *im, struct sp_json **config, int64_t *content_bytes,
		  struct sp_err *e);

#endif
