/* SPDX-License-Identifier: Apache-2.0 */
/* What a tool says about itself: --help, --version and --describe. */
#ifndef SP_TEXT_OPT_HELP_H
#define SP_TEXT_OPT_HELP_H

#include "text/opt.h"

/* Prints and ends the program if name is one of the three; else returns. */
void sp_opt_answer(const struct sp_tool *tool, const char *name);

#endif
