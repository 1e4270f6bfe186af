/* SPDX-License-Identifier: Apache-2.0 */
/* The byte queue keeps order, its bound, and a model made of one flat array. */
#include <stdlib.h>

#include "base/buf.h"
#include "tap.h"

static void bound(void)
{
	struct sp_buf b;

	sp_buf_init(&b, 10);
	ok(sp_buf_put(&b, "0123456", 7) && sp_buf_len(&b) == 7, "seven go in");
	ok(!sp_buf_put(&b, "789a", 4) && sp_buf_len(&b) == 7,
	   "four more do not, and nothing is put");
	ok(sp_buf_put(&b, "789", 3) && sp_buf_space(&b) == 0, "three do");
	sp_buf_drop(&b, 4);
	ok(sp_buf_put(&b, "abcd", 4) && memcmp(sp_buf_head(&b), "456789abcd", 10) == 0,
	   "what was dropped is room again");
	ok(!sp_buf_room(&b, 1), "full");
	sp_buf_free(&b);
	ok(sp_buf_len(&b) == 0 && b.max == 10 && sp_buf_put(&b, "x", 1), "freed, it goes on");
	sp_buf_free(&b);
}

static void model(void)
{
	static unsigned char all[200000];
	size_t in = 0, out = 0;
	struct sp_buf b;
	bool same = true;

	srand(1);
	for (size_t i = 0; i < sizeof all; i++)
		all[i] = (unsigned char)rand();
	sp_buf_init(&b, 5000);
	while (out < sizeof all) {
		size_t n = (size_t)rand() % 700;

		n = n < sizeof all - in ? n : sizeof all - in;
		if (sp_buf_put(&b, all + in, n))
			in += n;
		else
			same = same && n > sp_buf_space(&b);
		n = (size_t)rand() % 700;
		n = n < sp_buf_len(&b) ? n : sp_buf_len(&b);
		same = same && (!n || memcmp(sp_buf_head(&b), all + out, n) == 0);
		sp_buf_drop(&b, n);
		out += n;
		same = same && sp_buf_len(&b) == in - out && b.cap <= 5000;
	}
	ok(same, "200,000 bytes through a queue of 5,000 in random pieces");
	sp_buf_free(&b);
}

int main(void)
{
	bound();
	model();
	return tap_done();
}
