/* SPDX-License-Identifier: Apache-2.0 */
/* The one table of operations: a name, a JSON request, a JSON answer. Tools call only this; the
 * daemon serves the same table. Requests are checked here against the operation's field list: an
 * unknown key, a wrong type or a bad value is SP_USAGE and changes nothing.
 *
 * Lifecycle operations (create pause resume rm snap branch import) answer {"op":"o…"} at once; a
 * worker goes on behind it. {"wait":true} makes the call return when it has ended:
 * {"op","state","results":[…],"phases":[…]}; a failed one is -1 with its code and message (and
 * *answer still filled, so that partial results can be printed).
 *
 * name           request                                                     answer
 * create         image,name?,cpus?,memory?,disk?,env[]?,meta{}?,n?,request_id?,wait?,require_kvm?
 * pause resume   ids[1],request_id?,wait?
 * rm             ids[1],cascade?,request_id?,wait?   (sandbox, snapshot or image)
 * snap           sandbox,files?,name?,request_id?,wait?
 * branch         source,n?,name?,request_id?,wait?
 * import         name,source,size?,cpus?,memory?,warm(bool),auth_file?; worked in the caller
 * ls             what? (sandboxes snapshots images ops),ids[]?,tree?,bytes?  {"items":[…]}
 * op             id                                                          the record
 * opwait         id,timeout_ms?                               the final record; repairs
 * kernel-add     deb?,vmlinuz?,modules?        {"version"}
 * kernel-ls, kernel-rm version
 * doctor                                        {"checks":[{"name","ok","level","text","help"}]}
 */
#ifndef SP_API_API_H
#define SP_API_API_H

#include "base/err.h"
#include "text/json.h"

struct sp_api; /* opened roots and who asks */

/* Opens SPACE_STATE and SPACE_RUN. create: make them when absent (tools that write). */
int sp_api_open(struct sp_api **out, bool create, struct sp_err *e);
void sp_api_close(struct sp_api **a);
#define sp_auto_api __attribute__((cleanup(sp_api_close))) struct sp_api

int sp_api_call(struct sp_api *a, const char *name, const struct sp_json *request,
		struct sp_json **answer, struct sp_err *e);

/* Events: api/stream.h; sessions in the guest: api/session.h. */

#endif
