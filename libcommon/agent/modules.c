/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel modules of the initramfs, in the order that /modules.order gives. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/str.h"

#define INIT_COMPRESSED 4 /* MODULE_INIT_COMPRESSED_FILE, Linux 5.17 */

static bool is_compressed(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot &&
	       (strcmp(dot, ".xz") == 0 || strcmp(dot, ".zst") == 0 || strcmp(dot, ".gz") == 0);
}

static void load(const struct sp_agent *a, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		sp_say(a, "module %s: %s", path, strerror(errno));
		return;
	}
	if (syscall(SYS_finit_module, fd, "", is_compressed(path) ? INIT_COMPRESSED : 0) < 0 &&
	    errno != EEXIST)
		sp_say(a, "module %s: %s", path,
		       errno == ENOENT ? "needs another one before it" : strerror(errno));
	close(fd);
}

void sp_modules_load(const struct sp_agent *a)
{
	FILE *f = fopen("/modules.order", "re");
	sp_auto_free char *line = NULL;
	size_t cap = 0;

	while (f && getline(&line, &cap, f) > 0) {
		line[strcspn(line, "\r\n")] = '\0';
		if (line[0])
			load(a, line);
	}
	if (f)
		fclose(f);
}
