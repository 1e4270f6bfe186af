/* SPDX-License-Identifier: Apache-2.0 */
/* Request ids: ops/by-request/<owner>.<request id> is a symbolic link whose text is the operation's
 * id. It is made before the record it leads to, both under the root lock, so a link without a
 * record is of a begin that never was. Not flushed: the record holds the request id too, and the
 * first to take the root lock after a boot makes the links again. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "state/op_int.h"
#include "state/record.h"
#include "sys/fd.h"
#include "sys/fs.h"

#define BY_REQUEST "by-request"
#define REQUEST_MAX 128
#define LINK_SIZE (SP_NAME_SIZE + 1 + REQUEST_MAX + 1)

bool sp_op_request_is_valid(const char *request_id)
{
	size_t n = strspn(request_id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._:-");

	return n > 0 && n <= REQUEST_MAX && request_id[n] == '\0';
}

/* An owner is a name, so it has no dot: the text is unambiguous, and never "." or "..". */
static void link_name(const char *owner, const char *request_id, char out[static LINK_SIZE])
{
	snprintf(out, LINK_SIZE, "%s.%s", owner, request_id);
}

static bool link_read(int dir, const char *name, char id[static SP_ID_SIZE])
{
	char text[SP_ID_SIZE];

	if (readlinkat(dir, name, text, sizeof text) != SP_ID_LEN)
		return false;
	text[SP_ID_LEN] = '\0';
	memcpy(id, text, SP_ID_SIZE);
	return sp_id_is_valid(id, SP_OPERATION);
}

static int index_open(int ops)
{
	return openat(ops, BY_REQUEST, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Equal as JSON values: keys in any order. */
static bool json_same(const struct sp_json *a, const struct sp_json *b)
{
	sp_auto_str ta = SP_STR_INIT, tb = SP_STR_INIT;
	bool object = sp_json_is_object(a), array = sp_json_is_array(a);
	size_t i, n;

	if (object != sp_json_is_object(b) || array != sp_json_is_array(b))
		return false;
	if (!object && !array) {
		sp_json_print(a, &ta);
		sp_json_print(b, &tb);
		return strcmp(ta.p, tb.p) == 0;
	}
	n = sp_json_len(a);
	if (n != sp_json_len(b))
		return false;
	for (i = 0; i < n; i++) {
		const struct sp_json *va = sp_json_at(a, i), *vb = sp_json_at(b, i);

		if (object)
			vb = sp_json_get(b, sp_json_key_at(a, i));
		if (!vb || !json_same(va, vb))
			return false;
	}
	return true;
}

static bool same_request(const struct sp_json *rec, const struct sp_op_req *q)
{
	const struct sp_json *then = sp_json_get(rec, "request");
	const char *kind = sp_json_str(rec, "kind");

	if (!kind || strcmp(kind, q->kind) != 0)
		return false;
	if (!then || !q->request)
		return !q->request && (!then || sp_json_len(then) == 0);
	return json_same(then, q->request);
}

bool sp_op_request_is_known(int ops, const char *owner, const char *request_id)
{
	sp_auto_fd dir = index_open(ops);
	char name[LINK_SIZE], id[SP_ID_SIZE];

	link_name(owner, request_id, name);
	return dir >= 0 && link_read(dir, name, id);
}

int sp_op_request_find(const struct sp_roots *r, const struct sp_op_req *q,
		       char id[static SP_ID_SIZE], struct sp_err *e)
{
	sp_auto_fd ops = sp_op_dir(r, SP_DIR_OPS, e), dir = -1;
	sp_auto_json *rec = NULL;
	char name[LINK_SIZE];

	if (ops < 0)
		return -1;
	dir = index_open(ops);
	if (dir < 0)
		return 0;
	link_name(q->owner, q->request_id, name);
	if (!link_read(dir, name, id))
		return 0;
	rec = sp_record_load(ops, id, e);
	if (!rec && e->code == SP_ABSENT)
		return 0;
	if (!rec)
		return -1;
	if (!same_request(rec, q))
		return sp_fail(e, SP_CONFLICT, 0, "request id '%s' was used for another request",
			       q->request_id);
	return 1;
}

int sp_op_request_put(int ops, const char *owner, const char *request_id, const char *id,
		      struct sp_err *e)
{
	char name[LINK_SIZE], now[SP_ID_SIZE];
	sp_auto_fd dir = -1;

	if (sp_fs_mkdir(ops, BY_REQUEST, 0700, e) < 0)
		return -1;
	dir = sp_fs_open_dir(ops, BY_REQUEST, e);
	if (dir < 0)
		return -1;
	link_name(owner, request_id, name);
	if (link_read(dir, name, now) && strcmp(now, id) == 0)
		return 0;
	unlinkat(dir, name, 0); /* left by a begin that never was */
	if (symlinkat(id, dir, name) < 0)
		return sp_fail(e, sp_code_of_errno(errno), errno, "request id '%s'", request_id);
	return 0;
}

void sp_op_request_drop(int ops, const char *owner, const char *request_id, const char *id)
{
	sp_auto_fd dir = index_open(ops);
	char name[LINK_SIZE], now[SP_ID_SIZE];

	link_name(owner, request_id, name);
	if (dir >= 0 && link_read(dir, name, now) && strcmp(now, id) == 0)
		unlinkat(dir, name, 0);
}

static int sweep_one(int dir, const char *name, void *arg)
{
	const int *ops = arg;
	char id[SP_ID_SIZE];

	if (!link_read(dir, name, id) || !sp_fs_exists(*ops, id))
		unlinkat(dir, name, 0);
	return 0;
}

int sp_op_request_sweep(int ops, struct sp_err *e)
{
	sp_auto_fd dir = index_open(ops);

	if (dir < 0)
		return 0;
	return sp_fs_each(dir, sweep_one, &ops, e);
}
