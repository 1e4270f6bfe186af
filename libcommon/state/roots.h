/* SPDX-License-Identifier: Apache-2.0 */
/* The two state roots, opened once; everything below is reached by *at() from these descriptors.
 * vol_store_open (vol/store.h) fills it: `store` may be a mount that it has to make first. */
#ifndef SP_STATE_ROOTS_H
#define SP_STATE_ROOTS_H

struct sp_roots {
	int store;             /* STATE/store: the btrfs */
	int run;               /* RUN */
	char state_path[4096]; /* as given; for messages and for helpers' environment */
	char run_path[4096];
};

/* Folders of the store, made with it: checkpoints sandboxes kernels names ops queue warm; file
 * events, format. */
#define SP_DIR_CHECKPOINTS "checkpoints"
#define SP_DIR_SANDBOXES "sandboxes"
#define SP_DIR_KERNELS "kernels"
#define SP_DIR_NAMES "names"
#define SP_DIR_OPS "ops"
#define SP_DIR_QUEUE "queue"
#define SP_DIR_WARM "warm"
#define SP_OWNER_LOCAL "local" /* owner of what local tools make */

#endif
