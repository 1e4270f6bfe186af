/* SPDX-License-Identifier: Apache-2.0 */
/* A hostile tree into a folder: whatever it holds, nothing beside the folder changes, no more than
 * the caps is written, and no file that is not whole stays. The first byte says how it is cut. */
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/treewrite.h"
#include "sys/fs.h"

#define MAX_BYTES 4096
#define MAX_ENTRIES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[] = "/tmp/fuzz_treewrite.XXXXXX";
static int base = -1; /* holds "out", where the tree goes, and "beside" */

static void tidy(void)
{
	struct sp_err e;

	sp_fs_remove_tree(base, "out", &e);
	sp_fs_remove_tree(base, "beside", &e);
	rmdir(path);
}

static void begin(void)
{
	int fd;

	assert(mkdtemp(path) && atexit(tidy) == 0);
	base = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(base >= 0 && mkdirat(base, "beside", 0700) == 0);
	fd = openat(base, "beside/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert(fd >= 0 && write(fd, "keep", 4) == 4 && close(fd) == 0);
}

struct sum {
	uint64_t bytes, entries;
};

static void look(int dir, const char *name, struct sum *s)
{
	struct stat st;
	struct dirent *d;
	DIR *list;

	assert(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0);
	assert(S_ISDIR(st.st_mode) || S_ISREG(st.st_mode) || S_ISLNK(st.st_mode));
	assert((st.st_mode & 06000) == 0);
	assert(strncmp(name, ".space-cp-", 10) != 0);
	s->entries++;
	s->bytes += S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	if (!S_ISDIR(st.st_mode))
		return;
	list = fdopendir(openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (!list)
		return;
	while ((d = readdir(list)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			look(dirfd(list), d->d_name, s);
	closedir(list);
}

static void check_beside(void)
{
	char text[8];
	int fd = openat(base, "beside/file", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent *d;
	DIR *list;
	int n = 0;

	assert(fd >= 0 && read(fd, text, sizeof text) == 4 && memcmp(text, "keep", 4) == 0);
	close(fd);
	list = fdopendir(openat(base, "beside", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	while ((d = readdir(list)))
		n++;
	closedir(list);
	assert(n == 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_treewrite_how how = { .top = "t", .max_bytes = MAX_BYTES,
					.max_entries = MAX_ENTRIES };
	struct sp_treewrite *w;
	struct sum s = { 0 };
	struct sp_err e;
	size_t step;
	int rc = 0;

	if (base < 0)
		begin();
	if (!size)
		return 0;
	assert(mkdirat(base, "out", 0700) == 0);
	how.dir = openat(base, "out", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(how.dir >= 0 && symlinkat("../beside", how.dir, "link") == 0);
	w = sp_treewrite_new(&how);
	step = data[0] ? data[0] : size;
	for (size_t at = 1; rc == 0 && at < size; at += step)
		rc = sp_treewrite_feed(w, data + at, size - at < step ? size - at : step, &e);
	if (rc == 0)
		sp_treewrite_end(w, &e);
	sp_treewrite_free(&w);
	look(base, "out", &s);
	assert(s.bytes <= MAX_BYTES && s.entries <= MAX_ENTRIES + 2);
	check_beside();
	close(how.dir);
	assert(sp_fs_remove_tree(base, "out", &e) == 0);
	return 0;
}
