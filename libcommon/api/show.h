/* SPDX-License-Identifier: Apache-2.0 */
/* The items of a listing as lines of text. Columns are only ever added, at the end.
 *
 * sandbox   id name state image cpus memory disk accel created
 * snapshot  id name kind full|files sandbox created
 * image     id name cpus memory disk created
 * op        id kind state subject created error
 * tree      id drawing name
 * and, with bytes, unique and shared behind them
 */
#ifndef SP_API_SHOW_H
#define SP_API_SHOW_H

#include <stdbool.h>

#include "text/json.h"

void sp_show_row(const struct sp_json *item, bool tree, bool bytes); /* to standard output */
void sp_show_json(const struct sp_json *item);                       /* one line */

#endif
