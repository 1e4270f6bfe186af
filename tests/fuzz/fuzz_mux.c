/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a hostile guest into a mux with three sessions: it comes to rest, what its clients get
 * is whole frames of known types, and output never skips back. The first byte says how far the
 * greeting had come, the second how the rest is cut into pieces. */
#include "../unit/mux_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(struct rig *r, struct rig_peer *p, uint64_t next[static 3])
{
	const unsigned char *payload;
	struct sp_g_header h;
	uint64_t off = 0;
	int t;

	while ((t = rig_next(r, p, &h, &payload)) > 0) {
		assert(h.chan == 0);
		assert(t == SP_G_OPENED || t == SP_G_DATA || t == SP_G_ACK || t == SP_G_EOF ||
		       t == SP_G_EXIT || t == SP_G_ENTRY || t == SP_G_END || t == SP_G_ERROR ||
		       t == SP_G_LOST);
		if (t != SP_G_DATA)
			continue;
		assert(h.stream == 1 || h.stream == 2);
		assert(sp_frame_get_u64(payload, h.len, &off) == 0 && off >= next[h.stream]);
		next[h.stream] = off + h.len - 8;
		if (off & 1) /* sometimes acknowledged */
			rig_u64(r, p, 0, SP_G_ACK, h.stream, next[h.stream]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t next[3][3] = { 0 };
	struct sp_mux_welcome w;
	struct rig r;
	size_t step;

	if (size < 2)
		return 0;
	rig_begin(&r);
	w = rig_connect(&r, data[0] & 1);
	if (data[0] & 2)
		rig_send(&r, &r.guest, data[0] & 1 ? (const void *)SP_G_COLD_MARKER : w.marker_now,
			 SP_G_MARKER_LEN);
	if (data[0] & 4)
		rig_hello(&r);
	if (data[0] & 8)
		rig_ready(&r, 7);
	for (int i = 0; i < 3; i++) {
		rig_frame(&r, rig_client(&r, i), 0, SP_G_EXEC, 0, NULL, 0);
		if (i)
			rig_data(&r, &r.client[i], 0, 0, 0, "some input", 10);
	}
	step = 1 + (size_t)data[1] * 8;
	for (size_t at = 2; at < size; at += step) {
		if (!rig_send(&r, &r.guest, data + at, size - at < step ? size - at : step))
			break;
		look(&r, &r.client[0], next[0]); /* the others read at the end only */
		rig_pull(&r, &r.guest);
		sp_buf_drop(&r.guest.in, sp_buf_len(&r.guest.in));
	}
	sp_mux_hang_up(r.m, SP_BUSY, "over");
	for (int i = 0; i < 3; i++)
		look(&r, &r.client[i], next[i]);
	rig_end(&r);
	return 0;
}
