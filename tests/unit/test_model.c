/* SPDX-License-Identifier: Apache-2.0 */
/* What records say about machines and shapes, and the order of a tree. */
#include "sandbox/list.h"
#include "sandbox/model.h"
#include "tap.h"

static void test_machine(void)
{
	struct sp_machine m = { .engine = "qemu", .version = "7.2.15", .accel = "tcg",
				.cpu_model = "max", .machine = SP_MACHINE_QEMU, .devices = "v1",
				.cpus = 2, .memory = 512 << 20 };
	struct sp_machine back;
	sp_auto_json *rec = sp_json_new_object(), *again = sp_json_new_object();
	sp_auto_str one = SP_STR_INIT, two = SP_STR_INIT;

	ok(sp_machine_get(rec, &back) < 0, "a record without a machine has none");
	sp_machine_put(rec, &m);
	ok(sp_machine_get(rec, &back) == 0, "a machine is read back");
	sp_machine_put(again, &back);
	sp_json_print(rec, &one);
	sp_json_print(again, &two);
	is_str(two.p, one.p, "and is the same");
	sp_json_put_i64(rec, "memory", -1);
	ok(sp_machine_get(rec, &back) < 0, "absurd memory is refused");
	sp_json_put_i64(rec, "memory", 512 << 20);
	sp_json_put_str(sp_json_get_mut(rec, "machine"), "accel", "much too long for it");
	ok(sp_machine_get(rec, &back) < 0, "so is a name that does not fit");
}

static void test_shape(void)
{
	static const struct {
		struct sp_shape s;
		enum sp_code code;
	} t[] = {
		{ { 1, 256LL << 20, 0 }, SP_OK },
		{ { 32, 64LL << 20, 1LL << 30 }, SP_OK },
		{ { 0, 256LL << 20, 0 }, SP_USAGE },
		{ { 33, 256LL << 20, 0 }, SP_USAGE },
		{ { 1, 63LL << 20, 0 }, SP_USAGE },
		{ { 1, (256LL << 20) + 4096, 0 }, SP_USAGE },
		{ { 1, 1LL << 41, 0 }, SP_USAGE },
		{ { 1, 256LL << 20, 1234 }, SP_USAGE },
		{ { 1, 256LL << 20, -1 }, SP_USAGE },
		{ { 1, 256LL << 20, 1LL << 62 }, SP_USAGE },
	};
	struct sp_err e;

	for (size_t i = 0; i < SP_NELEM(t); i++) {
		int rc = sp_shape_check(&t[i].s, &e);

		ok(t[i].code == SP_OK ? rc == 0 : rc < 0 && e.code == t[i].code,
		   "%d cpus, %lld of memory, %lld of disk: %s", t[i].s.cpus,
		   (long long)t[i].s.memory, (long long)t[i].s.disk,
		   t[i].code == SP_OK ? "taken" : "refused");
	}
}

static void test_owner(void)
{
	sp_auto_json *rec = sp_json_new_object();

	sp_json_put_str(rec, "owner", "ann");
	ok(sp_owner_may(rec, "ann"), "an owner sees her own");
	ok(!sp_owner_may(rec, "bob"), "another does not");
	ok(sp_owner_may(rec, SP_OWNER_LOCAL), "the host's root does");
}

static void add(struct sp_json *items, const char *id, const char *key, const char *parent)
{
	struct sp_json *o = sp_json_new_object();

	sp_json_put_str(o, "id", id);
	if (key)
		sp_json_put_str(o, key, parent);
	sp_json_push(items, o);
}

static void test_tree(void)
{
	static const char want[] = "c1:0 c2:1 s1:2 c3:3 s2:4 s3:4 c9:0 s9:0 s8:1 ";
	struct sp_json *items = sp_json_new_array();
	sp_auto_str got = SP_STR_INIT;

	add(items, "c1", NULL, NULL);
	add(items, "s1", "parent", "c2");
	add(items, "c2", "image", "c1");
	add(items, "c3", "sandbox", "s1");
	add(items, "s2", "parent", "c3");
	add(items, "s3", "parent", "c3");
	add(items, "c9", "parent", "c-gone");
	add(items, "s8", "parent", "s9"); /* a loop */
	add(items, "s9", "parent", "s8");
	items = sp_list_tree(items);
	for (const struct sp_json *c = sp_json_first(items); c; c = sp_json_next(c))
		sp_str_addf(&got, "%s:%d ", sp_json_str(c, "id"), (int)sp_json_i64(c, "depth", -1));
	is_str(got.p, want, "parents before children, with depths; a loop is cut");
	sp_json_free(&items);
	items = sp_list_tree(sp_json_new_array());
	ok(sp_json_len(items) == 0, "an empty tree");
	sp_json_free(&items);
}

int main(void)
{
	test_machine();
	test_shape();
	test_owner();
	test_tree();
	return tap_done();
}
