/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into QEMU before 8.2: opens the machine's memory file read-only.
 *
 * memory-backend-file opens its file for writing even with share=off, where the mapping is
 * private and no write access is needed (mmap(2): MAP_PRIVATE wants a readable descriptor). The
 * file belongs to a checkpoint that siblings map too, so the jail shows it read-only and the open
 * would fail. QEMU 8.2 has readonly=on,rom=off for this. Built with fortify, QEMU calls
 * __open64_2; the other two are here for builds without.
 *
 * This is no security measure: the read-only mount in the jail is. It only lets QEMU start there.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>

#define MEMORY_PATH "/mem"
#define EXPORT __attribute__((visibility("default")))

typedef int open_fn(const char *path, int flags, ...);
typedef int open_2_fn(const char *path, int flags);

EXPORT int open64(const char *path, int flags, ...);
EXPORT int open(const char *path, int flags, ...);
EXPORT int __open64_2(const char *path, int flags);

static int without_write(const char *path, int flags)
{
	if (path && strcmp(path, MEMORY_PATH) == 0 && (flags & O_ACCMODE) == O_RDWR)
		return (flags & ~(O_ACCMODE | O_CREAT)) | O_RDONLY;
	return flags;
}

/* The next definition of a function, looked up once; ISO C has no conversion from an object
 * pointer to a function pointer, POSIX's dlsym needs one. */
static open_fn *next_open(const char *name, open_fn **kept)
{
	void *p;

	if (!*kept) {
		p = dlsym(RTLD_NEXT, name);
		memcpy(kept, &p, sizeof p);
	}
	return *kept;
}

int open64(const char *path, int flags, ...)
{
	static open_fn *real;
	mode_t mode = 0;
	va_list ap;

	if (flags & (O_CREAT | O_TMPFILE)) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	return next_open("open64", &real)(path, without_write(path, flags), mode);
}

int open(const char *path, int flags, ...)
{
	static open_fn *real;
	mode_t mode = 0;
	va_list ap;

	if (flags & (O_CREAT | O_TMPFILE)) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	return next_open("open", &real)(path, without_write(path, flags), mode);
}

int __open64_2(const char *path, int flags)
{
	static open_2_fn *real;
	void *p;

	if (!real) {
		p = dlsym(RTLD_NEXT, "__open64_2");
		memcpy(&real, &p, sizeof p);
	}
	return real(path, without_write(path, flags));
}
