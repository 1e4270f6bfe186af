/* SPDX-License-Identifier: Apache-2.0 */
/* What this host has and lacks for running sandboxes. Changes nothing, works without root as far as
 * it can see. */
#ifndef SP_API_DOCTOR_H
#define SP_API_DOCTOR_H

#include "base/err.h"
#include "text/json.h"

/* {"checks":[{"name","ok","level","text","help"}]}: level "ok", "warn" (works, but) or "fail"
 * (something needed is missing); ok is false for fail alone; help is the command that helps, absent
 * where there is none. */
int sp_api_doctor(struct sp_json **answer, struct sp_err *e);

#endif
