/* SPDX-License-Identifier: Apache-2.0 */
#include "api/show.h"

#include <stdio.h>
#include <string.h>

#include "sys/clock.h"
#include "text/opt.h"
#include "text/table.h"

struct row {
	const char *cell[12];
	size_t n;
	char created[32], cpus[16], memory[32], disk[32], unique[32], shared[32];
	struct sp_str label; /* the tree's */
};

static void cell(struct row *r, const char *text)
{
	r->cell[r->n++] = text;
}

static void cell_size(struct row *r, const struct sp_json *o, const char *key, char buf[static 32])
{
	int64_t v = sp_json_i64(o, key, -1);

	if (v >= 0)
		sp_size_format(v, buf);
	cell(r, v < 0 ? NULL : buf);
}

static void cell_created(struct row *r, const struct sp_json *o)
{
	int64_t at = sp_json_i64(o, "created", 0);

	if (at)
		sp_clock_format(at, r->created);
	cell(r, at ? r->created : NULL);
}

static void cell_shape(struct row *r, const struct sp_json *o)
{
	snprintf(r->cpus, sizeof r->cpus, "%d", (int)sp_json_i64(o, "cpus", 0));
	cell(r, r->cpus);
	cell_size(r, o, "memory", r->memory);
	cell_size(r, o, "disk", r->disk);
}

static void fill_sandbox(struct row *r, const struct sp_json *o)
{
	cell(r, sp_json_str(o, "name"));
	cell(r, sp_json_str(o, "flagged") ? "flagged" : sp_json_str(o, "state"));
	cell(r, sp_json_str(o, "image"));
	cell_shape(r, o);
	cell(r, sp_json_str(sp_json_get(o, "machine"), "accel"));
	cell_created(r, o);
}

static void fill_snapshot(struct row *r, const struct sp_json *o)
{
	cell(r, sp_json_str(o, "name"));
	cell(r, sp_json_str(o, "kind"));
	cell(r, sp_json_bool(o, "files", false) ? "files" : "full");
	cell(r, sp_json_str(o, "sandbox"));
	cell_created(r, o);
}

static void fill_image(struct row *r, const struct sp_json *o)
{
	cell(r, sp_json_str(o, "name"));
	cell_shape(r, o);
	cell_created(r, o);
}

static void fill_op(struct row *r, const struct sp_json *o)
{
	const struct sp_json *subjects = sp_json_get(o, "subjects");

	cell(r, sp_json_str(o, "kind"));
	cell(r, sp_json_str(o, "state"));
	cell(r, sp_json_value_str(sp_json_first(subjects)));
	cell_created(r, o);
	cell(r, sp_json_str(sp_json_get(o, "error"), "message"));
}

static void fill_tree(struct row *r, const struct sp_json *o)
{
	const char *name = sp_json_str(o, "name"), *kind = sp_json_str(o, "kind");
	const char *state = sp_json_str(o, "state");

	for (int64_t i = sp_json_i64(o, "depth", 0); i > 0; i--)
		sp_str_add(&r->label, i > 1 ? "   " : "└─ ");
	sp_str_add(&r->label, kind ? kind : "sandbox");
	if (state)
		sp_str_addf(&r->label, " (%s)", state);
	cell(r, r->label.p);
	cell(r, name);
}

void sp_show_row(const struct sp_json *o, bool tree, bool bytes)
{
	struct row r = { .label = SP_STR_INIT };
	const char *type = sp_json_str(o, "type");

	cell(&r, sp_json_str(o, "id"));
	if (tree)
		fill_tree(&r, o);
	else if (strcmp(type, "sandbox") == 0)
		fill_sandbox(&r, o);
	else if (strcmp(type, "image") == 0)
		fill_image(&r, o);
	else if (strcmp(type, "op") == 0)
		fill_op(&r, o);
	else
		fill_snapshot(&r, o);
	if (bytes) {
		cell_size(&r, o, "unique", r.unique);
		cell_size(&r, o, "shared", r.shared);
	}
	sp_row_print(r.cell, r.n);
	sp_str_free(&r.label);
}

void sp_show_json(const struct sp_json *o)
{
	sp_auto_str text = SP_STR_INIT;

	sp_json_print(o, &text);
	printf("%s\n", text.p);
}
