/* SPDX-License-Identifier: Apache-2.0 */
/* What a machine starts from: a checkpoint's facts, or a cold boot's. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "image/kernel.h"
#include "sandbox/making.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/fs.h"

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int parse_marker(const char *text, unsigned char out[static 16])
{
	if (!text || strlen(text) != 32)
		return -1;
	for (size_t i = 0; i < 16; i++) {
		int hi = hex_digit(text[2 * i]), lo = hex_digit(text[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return -1;
		out[i] = (unsigned char)(hi << 4 | lo);
	}
	return 0;
}

int sp_machine_check(const struct sp_machine *m, struct sp_err *e)
{
	char why[160];

	if (!sp_engine_find(m->engine))
		return sp_fail(e, SP_HOST, 0, "engine '%s' is not known here", m->engine);
	if (strcmp(m->accel, "kvm") == 0 && sp_kvm_probe(why, sizeof why) != 1)
		return sp_fail(e, SP_HOST, 0, "it was saved under KVM, which this host lacks: %s",
			       why);
	return 0;
}

static int find_kernel(const struct sp_roots *r, const struct sp_json *meta, char out[static 64],
		       struct sp_err *e)
{
	const char *want = sp_json_str(meta, "kernel");
	sp_auto_fd dir = -1;

	if (want && strlen(want) < 64 && want[0] != '.' && !strchr(want, '/')) {
		dir = sp_fs_open_dir(r->store, SP_DIR_KERNELS, e);
		if (dir >= 0 && sp_fs_exists(dir, want)) {
			snprintf(out, 64, "%s", want);
			return 0;
		}
	}
	return sp_kernel_default(r, out, e);
}

static int open_cold(const struct sp_roots *r, const struct sp_shape *shape, struct sp_origin *o,
		     struct sp_err *e)
{
	int64_t cpus = shape ? shape->cpus : sp_json_i64(o->meta, "cpus", SP_DEFAULT_CPUS);
	int64_t memory = shape ? shape->memory : sp_json_i64(o->meta, "memory", SP_DEFAULT_MEMORY);

	if (sp_engine_qemu.probe(false, &o->machine, e) < 0)
		return -1;
	o->machine.cpus = (uint32_t)cpus;
	o->machine.memory = (uint64_t)memory;
	o->disk = shape ? shape->disk : 0;
	return find_kernel(r, o->meta, o->kernel, e);
}

int sp_origin_open(const struct sp_roots *r, const char *checkpoint, bool cold,
		   const struct sp_shape *shape, struct sp_origin *out, struct sp_err *e)
{
	const char *kernel;

	*out = (struct sp_origin){ 0 };
	snprintf(out->id, sizeof out->id, "%s", checkpoint);
	out->meta = sp_checkpoint_load(r, checkpoint, e);
	if (!out->meta)
		return -1;
	out->load = !cold && sp_json_i64(out->meta, "vmstate_bytes", 0) > 0 &&
		    !sp_json_bool(out->meta, "files", false);
	if (!out->load)
		return open_cold(r, shape, out, e);
	if (sp_machine_get(out->meta, &out->machine) < 0 ||
	    parse_marker(sp_json_str(out->meta, "marker"), out->marker) < 0)
		return sp_fail(e, SP_FAIL, 0, "checkpoint %s: its record is damaged", checkpoint);
	kernel = sp_json_str(out->meta, "kernel");
	snprintf(out->kernel, sizeof out->kernel, "%s", kernel ? kernel : "");
	return sp_machine_check(&out->machine, e);
}

void sp_origin_close(struct sp_origin *o)
{
	sp_json_free(&o->meta);
}

uint64_t sp_generation_next(const struct sp_json *rec)
{
	int64_t last = sp_json_i64(rec, "generation", 0), now = sp_clock_real();

	return (uint64_t)(now > last ? now : last + 1);
}

int sp_machine_start(const struct sp_roots *r, const char *id, const struct sp_json *rec,
		     const struct sp_origin *base, bool same, uint64_t generation, int *report,
		     struct sp_err *e)
{
	struct sp_mon_spec spec = { .size = sizeof spec, .generation = generation, .same = same };
	const char *name = sp_json_str(rec, "name"), *kernel = sp_json_str(rec, "kernel");

	snprintf(spec.sandbox, sizeof spec.sandbox, "%s", id);
	snprintf(spec.kernel, sizeof spec.kernel, "%s", kernel ? kernel : "");
	snprintf(spec.hostname, sizeof spec.hostname, "%s", name ? name : id);
	if (sp_machine_get(rec, &spec.machine) < 0)
		return sp_fail(e, SP_FAIL, 0, "the record of sandbox %s is damaged", id);
	if (base) {
		snprintf(spec.base, sizeof spec.base, "%s", base->id);
		memcpy(spec.marker, base->marker, sizeof spec.marker);
		spec.machine = base->machine;
	}
	return sp_mon_start(r, &spec, report, e);
}
