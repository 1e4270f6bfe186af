/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of a test's own: tmp_make() returns its descriptor, tmp_clear() removes all of it. */
#ifndef SP_TESTS_TMP_H
#define SP_TESTS_TMP_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "sys/fd.h"
#include "sys/fs.h"

static char tmp_path[200];
static int tmp_fd = -1;

__attribute__((unused)) static int tmp_make(void)
{
	const char *in = getenv("SPACE_TEST_TMP"); /* tests/run gives each test its own */

	snprintf(tmp_path, sizeof tmp_path, "%s/space-test-XXXXXX", in ? in : "/tmp");
	if (!mkdtemp(tmp_path))
		abort();
	tmp_fd = open(tmp_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return tmp_fd;
}

__attribute__((unused)) static void tmp_clear(void)
{
	struct sp_err e;

	sp_fd_close(&tmp_fd);
	if (sp_fs_remove_tree(AT_FDCWD, tmp_path, &e) < 0)
		printf("# %s\n", e.msg);
}

/* The entries of a folder, hidden ones too. */
static inline int tmp_count_one(int dirfd, const char *name, void *n)
{
	(void)dirfd;
	(void)name;
	++*(int *)n;
	return 0;
}

__attribute__((unused)) static int tmp_count(int dirfd)
{
	struct sp_err e;
	int n = 0;

	return sp_fs_each(dirfd, tmp_count_one, &n, &e) < 0 ? -1 : n;
}

#endif
