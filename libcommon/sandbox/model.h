/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the store, as records (space-state(5)).
 *
 * checkpoints/<id>/           a subvolume, read-only once published
 *   rootfs.img                raw ext4
 *   mem, vmstate              of a running machine only
 *   meta.json {"format":1,"id","parent":id|absent,"owner",
 *     "kind":"image"|"warm"|"snapshot"|"pause"|"branch","sandbox":id of its source|absent,
 *     "image": id of the image it descends from,
 *     "created":"ns","why":text,"files":bool (disk only), "kernel","cpus","memory","disk",
 *     "machine":{"engine","version","accel","cpu_model","machine","devices"}|absent,
 *     "marker":hex|absent,"mem_bytes","vmstate_bytes","stopped_ns",
 *     "env":["K=V"],"config":{image config, image/import.h}}
 *   Those of kind pause and branch, and warm ones that no link names, go by themselves when the
 *   last sandbox that needs them goes; images and snapshots stay until they are removed.
 *
 * sandboxes/<id>/             a folder
 *   vol/                      its subvolume: rootfs.img
 *   mem                       while it boots cold: an empty sparse file of its memory's size
 *   ended                     {"generation","at","state":"stopped"|"dead","why"}: how the machine
 *     of that generation ended by itself, left by its monitor
 *   console                   monitor/console.h
 *   record.json {"format":1,"id","name"|absent,"owner","state","image":id,"base":id|absent (the
 *     checkpoint whose memory it runs on), "paused":id|absent (the checkpoint it resumes from),
 *     "parent": id of the checkpoint it was made from, "kernel","cpus","memory","disk",
 *     "machine":{…},"generation":"n","env":["K=V"],"meta":{k:v},"config":{…},"created","changed",
 *     "op": the last operation that changed it,"flagged":text|absent,"hidden":true|absent (the
 *     machine behind a warm operation)}
 *
 * state: "running" (its monitor lives; when it does not, it is shown as "stopped" if the guest
 * powered off, "starting" while an operation on it is open, else "dead": it can be resumed cold
 * from its disk, paused never, removed always), "paused" (vol/ is gone: disk and memory are the
 * checkpoint's), "stopped".
 * A sandbox that is being made is sandboxes/.new-<id>; the rename is the commit.
 *
 * warm/<image id>/<cpus>-<memory>-<disk>   symbolic link: id of the warm checkpoint of that shape
 */
#ifndef SP_SANDBOX_MODEL_H
#define SP_SANDBOX_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "state/roots.h"
#include "text/id.h"
#include "text/json.h"
#include "vmm/engine.h"

#define SP_DEFAULT_CPUS 1
#define SP_DEFAULT_MEMORY (256LL << 20)
#define SP_MAX_CPUS 32
#define SP_MAX_MEMORY (1LL << 40)
#define SP_MIN_MEMORY (64LL << 20)
#define SP_MEMORY_STEP (2LL << 20) /* memory is a multiple of this */
#define SP_MAX_DISK (16LL << 40)
#define SP_DISK_STEP (1LL << 20)
#define SP_MAX_CHILDREN 256    /* sandboxes made by one operation */
#define SP_MAX_CONFIG 6000    /* bytes of an image's config, printed: it is in every meta.json */
#define SP_MAX_ENV 6000        /* bytes of a sandbox's env, printed; the same */
#define SP_MAX_META 16384      /* bytes of a sandbox's meta, printed */

/* What an image is warm for. */
struct sp_shape {
	int cpus;
	int64_t memory, disk;
};

/* Folders; a descriptor, or -1 with SP_ABSENT "no such sandbox" / "no such checkpoint". */
int sp_sandbox_dir(const struct sp_roots *r, const char *id, struct sp_err *e);
int sp_checkpoint_dir(const struct sp_roots *r, const char *id, struct sp_err *e);

/* Records; NULL with SP_ABSENT where there is none. The caller frees. */
struct sp_json *sp_sandbox_load(const struct sp_roots *r, const char *id, struct sp_err *e);
struct sp_json *sp_checkpoint_load(const struct sp_roots *r, const char *id, struct sp_err *e);
/* Replaces record.json durably; sets "changed" and "op". */
int sp_sandbox_save(const struct sp_roots *r, const char *id, struct sp_json *rec, const char *op,
		    struct sp_err *e);

/* Operands. What another owner has is absent; the local owner sees everything. */
bool sp_owner_may(const struct sp_json *rec, const char *owner);
int sp_sandbox_find(const struct sp_roots *r, const char *owner, const char *operand,
		    char id[static SP_ID_SIZE], struct sp_err *e);
/* Sandbox, snapshot or image, whose record exists or which an open operation is making. */
int sp_any_find(const struct sp_roots *r, const char *owner, const char *operand,
		char id[static SP_ID_SIZE], struct sp_err *e);

/* Is an operation other than `but` (or NULL) open that names this subject? */
bool sp_subject_is_busy(const struct sp_roots *r, const char *id, const char *but);

/* What a sandbox is now: its record's state, or what is shown instead (see above). Static text.
 * busy: the subjects of open operations as sp_busy_load gives them, or NULL to look for its own. */
const char *sp_sandbox_state(const struct sp_roots *r, const char *id, const struct sp_json *rec,
			     const struct sp_str *busy);
void sp_busy_load(const struct sp_roots *r, struct sp_str *out);

/* "machine", "cpus" and "memory" of a record. get: -1 where the record has no machine. */
void sp_machine_put(struct sp_json *rec, const struct sp_machine *m);
int sp_machine_get(const struct sp_json *rec, struct sp_machine *out);

/* Refuses more memory than the host has (SP_HOST), and odd shapes (SP_USAGE). */
int sp_shape_check(const struct sp_shape *s, struct sp_err *e);

/* The link of a warm checkpoint; SP_ABSENT where the shape is not warm. */
int sp_warm_get(const struct sp_roots *r, const char *image, const struct sp_shape *s,
		char id[static SP_ID_SIZE], struct sp_err *e);
int sp_warm_set(const struct sp_roots *r, const char *image, const struct sp_shape *s,
		const char *id, struct sp_err *e);

#endif
