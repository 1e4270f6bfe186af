/* SPDX-License-Identifier: Apache-2.0 */
/* space-guest: the guest agent. /init of the initramfs; elsewhere only for tests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"

static const char help[] =
	"usage: space-guest --channel FD [--root DIR] [--hooks DIR]\n"
	"Runs inside a sandbox as /init. Anywhere else it is for tests:\n"
	"  --channel FD  speak on this inherited socket; change nothing of this machine\n"
	"  --root DIR    change root first\n"
	"  --hooks DIR   run the resume hooks in this folder\n"
	"  --help, --version\n";

static int usage(const char *what)
{
	fprintf(stderr, "space-guest: %s\n", what);
	return SP_USAGE;
}

int main(int argc, char **argv)
{
	const char *root = NULL, *hooks = NULL;
	int channel = -1;

	if (getpid() == 1 && (argc < 2 || strcmp(argv[1], "--channel") != 0))
		return sp_agent_main(argv, -1, NULL, NULL);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0)
			return fputs(help, stdout) < 0;
		if (strcmp(argv[i], "--version") == 0)
			return puts("space-guest " SP_VERSION) < 0;
		if (i + 1 == argc)
			return usage("wrong use: see --help");
		if (strcmp(argv[i], "--channel") == 0)
			channel = atoi(argv[++i]);
		else if (strcmp(argv[i], "--root") == 0)
			root = argv[++i];
		else if (strcmp(argv[i], "--hooks") == 0)
			hooks = argv[++i];
		else
			return usage("wrong use: see --help");
	}
	if (channel < 3)
		return usage("needs --channel FD: it is the first process of a sandbox, or a test");
	return sp_agent_main(argv, channel, root, hooks);
}
