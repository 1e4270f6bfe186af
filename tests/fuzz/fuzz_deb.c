/* SPDX-License-Identifier: Apache-2.0 */
/* A package from foreign bytes: whatever they are, its files can be walked or it is refused. */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image/deb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char buf[65536];
	int fd = memfd_create("deb", MFD_CLOEXEC), files = 0, reads = 0;
	struct archive_entry *entry;
	struct sp_deb *d;
	struct sp_err e;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) < 0)
		return 0;
	d = sp_deb_open(fd, &e);
	while (d && files++ < 100 &&
	       archive_read_next_header(sp_deb_files(d), &entry) >= ARCHIVE_WARN)
		while (reads++ < 1000 && archive_read_data(sp_deb_files(d), buf, sizeof buf) > 0)
			;
	sp_deb_close(&d);
	close(fd);
	return 0;
}
