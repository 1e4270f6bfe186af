/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "sys/fd.h"

#define SECOND INT64_C(1000000000)

static int64_t now(clockid_t id)
{
	struct timespec ts = { 0 };

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * SECOND + ts.tv_nsec;
}

int64_t sp_clock_real(void)
{
	return now(CLOCK_REALTIME);
}

int64_t sp_clock_mono(void)
{
	return now(CLOCK_MONOTONIC);
}

const char *sp_clock_boot_id(void)
{
	static char id[37];
	sp_auto_fd fd = -1;

	if (id[0])
		return id;
	fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || sp_fd_read(fd, id, 36) != 36)
		id[0] = '\0';
	return id;
}

void sp_clock_format(int64_t real_ns, char out[static 32])
{
	int64_t sec = real_ns / SECOND, rest = real_ns % SECOND;
	struct tm tm;
	time_t t;

	if (rest < 0) {
		sec--;
		rest += SECOND;
	}
	t = (time_t)sec;
	gmtime_r(&t, &tm); /* an int64_t of nanoseconds ends in the year 2262: always four digits */
	snprintf(out, 32, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
		 (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)(tm.tm_mon + 1) % 100,
		 (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
		 (unsigned)tm.tm_sec % 100, (unsigned)(rest / 1000000));
}

int sp_clock_parse_span(const char *text, int64_t *ns)
{
	int64_t v = 0, unit = 1;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v))
			return -1;
	}
	if (p == text)
		return -1;
	switch (*p) {
	case '\0':
		break;
	case 's':
		p++;
		break;
	case 'm':
		unit = 60;
		p++;
		break;
	case 'h':
		unit = 3600;
		p++;
		break;
	case 'd':
		unit = 86400;
		p++;
		break;
	default:
		return -1;
	}
	if (*p || __builtin_mul_overflow(v, unit * SECOND, &v))
		return -1;
	*ns = v;
	return 0;
}

void sp_random(void *buf, size_t n)
{
	char *p = buf;

	while (n) {
		ssize_t k = getrandom(p, n, 0);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			abort(); /* every kernel has it, and nothing may go on without */
		p += k;
		n -= (size_t)k;
	}
}

void sp_random_text(char *out, size_t n)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	unsigned char r[64];
	size_t have = 0;

	for (size_t i = 0; i < n;) {
		if (!have) {
			sp_random(r, sizeof r);
			have = sizeof r;
		}
		if (r[--have] < 252) /* 7 times 36: no letter is likelier than another */
			out[i++] = set[r[have] % 36];
	}
	out[n] = '\0';
}
