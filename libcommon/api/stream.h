/* SPDX-License-Identifier: Apache-2.0 */
/* Events as they come (state/event.h has their form). */
#ifndef SP_API_STREAM_H
#define SP_API_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#include "api/api.h"
#include "base/err.h"

/* Calls fn with each event's JSON line, from `since` on (after that sequence number; NULL: from the
 * first). follow: goes on until fn returns other than 0, which is then the answer. A sequence
 * number that is none is SP_USAGE. */
int sp_api_events(struct sp_api *a, const char *since, bool follow,
		  int (*fn)(const char *line, size_t n, void *arg), void *arg, struct sp_err *e);

#endif
