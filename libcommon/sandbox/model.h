/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the store, as records (space-state(5)).
 *
 * checkpoints/<id>/           a subvolume, read-only once published
 *   rootfs.img                raw ext4
 *   mem, vmstate              of a running machine only
 *   meta.json {"format":1,"id","parent":id|absent,"owner","kind":"image"|"warm"|"snapshot"|"pause",
 *     "sandbox":id of its source|absent, "image": id of the image it descends from,
 *     "created":"ns","why":text,"files":bool (disk only), "kernel","cpus","memory","disk",
 *     "machine":{"engine","version","accel","cpu_model","machine","devices"}|absent,
 *     "marker":hex|absent,"mem_bytes","vmstate_bytes","stopped_ns",
 *     "config":{image config, image/import.h}}
 *
 * sandboxes/<id>/             a folder
 *   vol/                      its subvolume: rootfs.img
 *   mem                       cold boot only: an empty sparse file of the machine's memory size
 *   console                   monitor/console.h
 *   record.json {"format":1,"id","name"|absent,"owner","state","image":id,"base":id|absent (the
 *     checkpoint whose memory it runs on), "paused":id|absent (the checkpoint it resumes from),
 *     "parent": id of the checkpoint it was made from, "kernel","cpus","memory","disk",
 *     "machine":{…},"generation":"n","env":["K=V"],"meta":{k:v},"config":{…},"created","changed",
 *     "flagged":text|absent}
 *
 * state: "running" (its monitor lives; when it does not, it is shown as "dead" and can be resumed
 * cold from its disk, paused never, removed always), "paused", "stopped" (the guest powered off).
 * A sandbox that is being made is sandboxes/.new-<id>; the rename is the commit.
 *
 * warm/<image id>/<cpus>-<memory>-<disk>   symbolic link: id of the warm checkpoint of that shape
 */
#ifndef SP_SANDBOX_MODEL_H
#define SP_SANDBOX_MODEL_H

#define SP_DEFAULT_CPUS 1
#define SP_DEFAULT_MEMORY (256LL << 20)
#define SP_MAX_CPUS 32
#define SP_MAX_MEMORY (1LL << 40)
#define SP_MIN_MEMORY (64LL << 20)

#endif
