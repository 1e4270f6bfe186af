/* SPDX-License-Identifier: Apache-2.0 */
/* A Debian package's files: data.tar.* inside an ar archive, both read by libarchive in one pass.
 * For the confined process: the descriptor is all it needs. */
#ifndef SP_IMAGE_DEB_H
#define SP_IMAGE_DEB_H

#include <archive.h>

#include "base/err.h"

struct sp_deb;

struct sp_deb *sp_deb_open(int fd, struct sp_err *e); /* NULL: no package */
void sp_deb_close(struct sp_deb **d);
/* The files, to be read with archive_read_next_header and archive_read_data. */
struct archive *sp_deb_files(struct sp_deb *d);

#endif
