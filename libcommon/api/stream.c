/* SPDX-License-Identifier: Apache-2.0 */
#include "api/stream.h"

#include <string.h>

#include "api/table.h"
#include "state/event.h"

/* EPOCH.OFFSET */
static bool is_sequence(const char *s)
{
	size_t a = strspn(s, "0123456789"), b;

	if (a < 1 || a > 18 || s[a] != '.')
		return false;
	b = strspn(s + a + 1, "0123456789");
	return b >= 1 && b <= 18 && !s[a + 1 + b];
}

int sp_api_events(struct sp_api *a, const char *since, bool follow,
		  int (*fn)(const char *line, size_t n, void *arg), void *arg, struct sp_err *e)
{
	if (since && !is_sequence(since))
		return sp_fail(e, SP_USAGE, 0, "'%s' is not a sequence number (EPOCH.OFFSET)",
			       since);
	return sp_event_read(&a->roots, since, follow, fn, arg, e);
}
