/* SPDX-License-Identifier: Apache-2.0 */
/* The operations that need whole libraries of their own (archives, TLS): import, kernel-add,
 * kernel-ls, kernel-rm, doctor. A program that calls one of them calls sp_api_use_extra first; the
 * others are not linked with those libraries and start the faster for it. */
#ifndef SP_API_EXTRA_H
#define SP_API_EXTRA_H

void sp_api_use_extra(void);

#endif
