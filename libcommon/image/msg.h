/* SPDX-License-Identifier: Apache-2.0 */
/* What the processes of an import say to each other: one fixed message, checked on arrival.
 *
 * Three kinds of talk, each over its own SOCK_SEQPACKET pair:
 *
 *   unpacker to parent    PROGRESS*, CONFIG?, then DONE or FAIL
 *   unpacker to supplier  ASK name, answered by GIVE (with a descriptor to read from) or FAIL;
 *                         where GIVE says so, END or FAIL follows behind the last byte
 *   walker to parent      DONE or FAIL
 *
 * The supplier is the parent where the source is a folder, and the fetcher where it is a registry.
 * A message is as long as its struct, CONFIG alone is followed by its text. Text is cut off and
 * terminated by the receiver, and escaped where people see it.
 */
#ifndef SP_IMAGE_MSG_H
#define SP_IMAGE_MSG_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

#define SP_MSG_TEXT 400
#define SP_MSG_TAIL (64 * 1024) /* most text behind a CONFIG */

enum sp_msg_kind {
	SP_MSG_PROGRESS = 1, /* n[0] bytes in, n[1] bytes of content; text: what is being done */
	SP_MSG_CONFIG,       /* tail: JSON */
	SP_MSG_DONE,         /* n[]: see struct sp_unpacked */
	SP_MSG_FAIL,         /* n[0] code, text */
	SP_MSG_ASK,          /* text: a name */
	SP_MSG_GIVE,         /* n[0] size or -1, n[1] 1: END follows; text: media type */
	SP_MSG_END,
};

struct sp_msg {
	uint32_t kind;
	uint32_t zero;
	int64_t n[6];
	char text[SP_MSG_TEXT];
};

/* Sends; fd -1: none. -1 with errno. */
int sp_msg_send(int sock, const struct sp_msg *m, int fd);
int sp_msg_send_config(int sock, const char *text, size_t n);
int sp_msg_send_fail(int sock, const struct sp_err *err);
/* Receives one: 1 got, 0 the other side is gone, -1 no message of ours (*e is filled). Unasked-for
 * descriptors are closed: fd NULL takes none. tail (may be NULL) gets what follows a CONFIG. */
int sp_msg_recv(int sock, struct sp_msg *m, int *fd, struct sp_str *tail, struct sp_err *e);
/* Turns a FAIL into *e: the code checked, the text escaped. Always -1. */
int sp_msg_fail(const struct sp_msg *m, struct sp_err *e);

#endif
