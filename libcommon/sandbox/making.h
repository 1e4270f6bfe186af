/* SPDX-License-Identifier: Apache-2.0 */
/* Making sandboxes from a checkpoint: what create, branch and warm share.
 *
 * A sandbox is built aside (.new-<id>: a snapshot of the checkpoint's subvolume, its record) and
 * becomes one by a rename, under the root lock and only if its checkpoint is still there. Its
 * record is made durable while its machine starts: the operation is done when both are.
 */
#ifndef SP_SANDBOX_MAKING_H
#define SP_SANDBOX_MAKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "monitor/ctl.h"
#include "sandbox/model.h"
#include "sandbox/task.h"
#include "text/json.h"
#include "vmm/engine.h"

/* What sandboxes are made from. */
struct sp_origin {
	char id[SP_ID_SIZE]; /* the checkpoint */
	struct sp_json *meta;
	bool load; /* its memory too, else a cold boot */
	struct sp_machine machine;
	unsigned char marker[16];
	char kernel[64];
	int64_t disk; /* bytes that rootfs.img shall have; 0: as it is */
};

/* Loads a checkpoint's facts and checks that this host can run it (SP_HOST). cold: do not use its
 * memory. shape (NULL: the checkpoint's own) counts for cold boots. */
int sp_origin_open(const struct sp_roots *r, const char *checkpoint, bool cold,
		   const struct sp_shape *shape, struct sp_origin *out, struct sp_err *e);
void sp_origin_close(struct sp_origin *o);
#define sp_auto_origin __attribute__((cleanup(sp_origin_close))) struct sp_origin

/* Can this host load a machine saved like this? SP_HOST when not. */
int sp_machine_check(const struct sp_machine *m, struct sp_err *e);

struct sp_child {
	char id[SP_ID_SIZE];
	char name[SP_NAME_SIZE]; /* or "" */
	uint64_t generation;
	int record; /* its open record, not yet durable; or -1 */
	int report; /* its monitor's report is awaited; or -1 */
	struct sp_mon_report told; /* the report */
	bool failed;
	struct sp_err err;
};

struct sp_making {
	struct sp_task *task;
	const struct sp_origin *origin;
	const struct sp_json *env;  /* K=V, beside the checkpoint's; or NULL */
	const struct sp_json *meta; /* k: v; or NULL */
	bool hidden;
	struct sp_child *child;
	size_t n;
};

/* Builds, starts and awaits all; the failed ones are removed again. Puts each child's result into
 * the operation. -1 when any failed, with the worst one's code. */
int sp_making_run(struct sp_making *m, struct sp_err *e);

/* The steps of one child, for the warm-up. */
int sp_child_build(struct sp_making *m, struct sp_child *c, struct sp_err *e);
int sp_child_start(struct sp_making *m, struct sp_child *c, struct sp_err *e);
int sp_child_settle(struct sp_making *m, struct sp_child *c, struct sp_err *e);
int sp_child_await(struct sp_making *m, struct sp_child *c, struct sp_err *e);

/* Fills children from the task's subjects from number `first` on, named NAME or NAME-1, -2, … */
struct sp_child *sp_children_new(const struct sp_task *t, size_t first, const char *name,
				 size_t *n);
/* For plans: appends n new sandbox ids to subjects and refuses names that are taken or bad. */
int sp_children_plan(const struct sp_roots *r, const char *owner, const char *name, int64_t n,
		     struct sp_json *subjects, struct sp_err *e);

/* A new generation number for a start. */
uint64_t sp_generation_next(const struct sp_json *rec);
/* The start of a sandbox's machine as its record tells it. base NULL: cold. */
int sp_machine_start(const struct sp_roots *r, const char *id, const struct sp_json *rec,
		     const struct sp_origin *base, bool same, uint64_t generation, int *report,
		     struct sp_err *e);

/* Removes a sandbox, whole or half made, running or not, and its names. Absent: fine. */
int sp_sandbox_discard(const struct sp_roots *r, const char *id, struct sp_err *e);
/* The same for each subject of an operation from number `first` on. */
int sp_children_discard(const struct sp_task *t, size_t first, struct sp_err *e);

#endif
