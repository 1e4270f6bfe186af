/* SPDX-License-Identifier: Apache-2.0 */
/* Trees from a hostile guest, each beside one that is fine and differs in the one thing. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/treewrite.h"
#include "base/str.h"
#include "guest/tree.h"
#include "sys/fd.h"
#include "tap.h"

static char dir[] = "/tmp/test_treewrite.XXXXXX";
static int out = -1; /* dir/out, where trees go; dir/outside is what they must not reach */
static struct sp_str s = SP_STR_INIT;
static struct sp_treewrite_how how = { .max_bytes = 1000, .max_entries = 10 };
static size_t step; /* how the stream is cut; 0: whole */
static struct sp_err e;

static void fresh(void)
{
	char cmd[256];

	snprintf(cmd, sizeof cmd,
		 "cd %s && rm -rf out outside && mkdir out outside && echo old > outside/file",
		 dir);
	if (system(cmd) != 0)
		abort();
	if (out >= 0)
		close(out);
	snprintf(cmd, sizeof cmd, "%s/out", dir);
	out = open(cmd, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	how.dir = out;
	how.top = "t";
	how.folder = false;
	sp_str_clear(&s);
}

static void put_raw(char kind, uint32_t mode, uint64_t size, const char *path, size_t path_len,
		    const char *link, const char *bytes)
{
	struct sp_tree_record r = { .kind = kind, .mode = mode, .size = size,
				    .mtime = INT64_C(1700000000123456789) };
	unsigned char head[SP_TREE_HEADER];

	if (kind == 'e')
		r.mtime = 0;
	r.path_len = (uint16_t)path_len;
	r.link_len = (uint16_t)strlen(link);
	sp_tree_pack(&r, head);
	sp_str_addn(&s, head, sizeof head);
	sp_str_addn(&s, path, path_len);
	sp_str_add(&s, link);
	sp_str_add(&s, bytes);
}

static void folder(const char *path)
{
	put_raw('d', 0750, 0, path, strlen(path), "", "");
}
static void file(const char *path, const char *text)
{
	put_raw('f', 0640, strlen(text), path, strlen(path), "", text);
}
static void link_to(const char *path, const char *to)
{
	put_raw('l', 0777, 0, path, strlen(path), to, "");
}
static void end(void)
{
	put_raw('e', 0, 0, "", 0, "", "");
}

static int run(void)
{
	struct sp_treewrite *w = sp_treewrite_new(&how);
	int rc = 0;

	for (size_t at = 0; rc == 0 && at < s.len; at += step ? step : s.len) {
		size_t n = step && s.len - at > step ? step : s.len - at;

		rc = sp_treewrite_feed(w, s.p + at, n, &e);
	}
	if (rc == 0)
		rc = sp_treewrite_end(w, &e);
	if (rc < 0)
		printf("# %s\n", e.msg);
	sp_treewrite_free(&w);
	return rc;
}

static bool holds(const char *path, const char *text)
{
	char buf[64];
	sp_auto_fd fd = openat(out, path, O_RDONLY | O_NOFOLLOW);
	ssize_t n = fd < 0 ? -1 : sp_fd_read(fd, buf, sizeof buf);

	return n == (ssize_t)strlen(text) && memcmp(buf, text, (size_t)n) == 0;
}

static bool outside_is_untouched(void)
{
	struct dirent *d;
	DIR *list;
	int n = 0;

	if (!holds("../outside/file", "old\n"))
		return false;
	list = fdopendir(openat(out, "../outside", O_RDONLY | O_DIRECTORY));
	while (list && (d = readdir(list)))
		n++;
	closedir(list);
	return n == 3;
}

static bool no_litter(const char *path)
{
	DIR *list = fdopendir(openat(out, path, O_RDONLY | O_DIRECTORY));
	struct dirent *d;
	bool good = true;

	while (list && (d = readdir(list)))
		good &= strncmp(d->d_name, ".space-cp-", 10) != 0;
	closedir(list);
	return good;
}

/* A tree with one entry path, of a kind that would be fine elsewhere. */
static void test_path(const char *path, size_t n, bool fine, const char *what)
{
	fresh();
	folder("");
	folder("d");
	put_raw('f', 0644, 1, path, n, "", "x");
	end();
	ok((run() == 0) == fine && outside_is_untouched() && no_litter("."), "%s: %s", what,
	   fine ? "written" : "refused");
}

static void test_good(void)
{
	struct stat st;
	char link[64];
	ssize_t n;

	for (step = 0; step < 40; step += 13) {
		fresh();
		folder("");
		folder("a");
		folder("a/b");
		file("a/b/f", "deep");
		folder("a/c");
		folder("a/e");
		file("a/g", "");
		file("h", "top");
		link_to("l", "../../../etc/passwd");
		end();
		ok(run() == 0 && holds("t/a/b/f", "deep") && holds("t/a/g", "") &&
			   holds("t/h", "top"),
		   "a tree, in pieces of %zu", step);
	}
	step = 0;
	n = readlinkat(out, "t/l", link, sizeof link);
	ok(n == 19 && memcmp(link, "../../../etc/passwd", 19) == 0, "a link is kept as it is");
	ok(fstatat(out, "t/a", &st, 0) == 0 && (st.st_mode & 07777) == 0750 &&
		   st.st_mtim.tv_sec == 1700000000 && st.st_mtim.tv_nsec == 123456789,
	   "a folder's mode and time, though things were put in");
	ok(fstatat(out, "t/a/c", &st, 0) == 0 && (st.st_mode & 07777) == 0750 &&
		   fstatat(out, "t/a/e", &st, 0) == 0 && (st.st_mode & 07777) == 0750,
	   "those of empty ones side by side");
	ok(fstatat(out, "t", &st, 0) == 0 && (st.st_mode & 07777) == 0750 &&
		   st.st_mtim.tv_sec == 1700000000,
	   "the top's too");
	ok(fstatat(out, "t/h", &st, 0) == 0 && (st.st_mode & 07777) == 0640 &&
		   st.st_mtim.tv_nsec == 123456789 && st.st_uid == geteuid(),
	   "a file's mode, time and owner");
	sp_str_clear(&s);
	folder("");
	file("h", "new");
	file("i", "more");
	end();
	ok(run() == 0 && holds("t/h", "new") && holds("t/i", "more") && holds("t/a/b/f", "deep"),
	   "into a folder that is there: replaced, added, kept");
	fresh();
	file("", "alone");
	end();
	ok(run() == 0 && holds("t", "alone"), "a file as the top");
	fresh();
	how.top = "";
	folder("");
	file("x", "1");
	end();
	ok(run() == 0 && holds("x", "1"), "the top is the folder itself");
	sp_str_clear(&s);
	file("", "alone");
	end();
	ok(run() < 0, "which a file cannot be");
}

static void test_links(void)
{
	fresh();
	folder("");
	folder("l");
	file("l/new", "x");
	end();
	ok(run() == 0 && outside_is_untouched(), "a folder and a file in it: written");
	fresh();
	folder("");
	link_to("l", "../../outside");
	file("l/new", "x");
	end();
	ok(run() < 0 && outside_is_untouched(), "a link and a file through it: refused");
	fresh();
	folder("");
	link_to("l", "../../outside/file");
	file("l", "x");
	end();
	ok(run() == 0 && outside_is_untouched() && holds("t/l", "x"),
	   "a link and a file of its name: the link is replaced");
	fresh();
	folder("");
	link_to("l", "../../outside");
	folder("l");
	end();
	ok(run() < 0 && outside_is_untouched(), "a link and a folder of its name: refused");
	fresh();
	link_to("", "../outside");
	file("new", "x");
	end();
	ok(run() < 0 && outside_is_untouched(), "a link as the top and a file in it: refused");
	fresh();
	if (symlinkat("../outside", out, "t") < 0)
		abort();
	folder("");
	file("new", "x");
	end();
	ok(run() < 0 && outside_is_untouched(), "a link that was there is not followed");
	fresh();
	if (mkdirat(out, "t", 0700) < 0 || symlinkat("../../outside/file", out, "t/file") < 0)
		abort();
	folder("");
	file("file", "x");
	end();
	ok(run() == 0 && outside_is_untouched() && holds("t/file", "x"),
	   "nor one in the place of a file");
	fresh();
	if (mkdirat(out, "t", 0700) < 0 || linkat(out, "../outside/file", out, "t/file", 0) < 0)
		abort();
	folder("");
	file("file", "x");
	end();
	ok(run() == 0 && outside_is_untouched() && holds("t/file", "x"),
	   "a hard link is replaced, not written through");
}

static void test_kinds(void)
{
	struct stat st;

	fresh();
	put_raw('d', 07777, 0, "", 0, "", "");
	put_raw('f', 07777, 1, "f", 1, "", "x");
	end();
	ok(run() == 0 && fstatat(out, "t/f", &st, 0) == 0 && (st.st_mode & 07777) == 0777 &&
		   fstatat(out, "t", &st, 0) == 0 && (st.st_mode & 07777) == 01777,
	   "setuid and setgid bits are dropped");
	for (const char *k = "dflcbpshx"; *k; k++) {
		fresh();
		folder("");
		put_raw(*k, 0600, 0, "n", 1, *k == 'l' ? "x" : "", "");
		end();
		ok((run() == 0) == (strchr("dfl", *k) != NULL), "kind '%c'", *k);
	}
	fresh();
	if (mkfifoat(out, "t", 0600) < 0)
		abort();
	file("", "x");
	end();
	ok(run() < 0 && fstatat(out, "t", &st, 0) == 0 && S_ISFIFO(st.st_mode) && no_litter("."),
	   "a fifo that was there is neither written nor replaced");
	fresh();
	folder("");
	folder("d");
	file("d", "x");
	end();
	ok(run() < 0 && no_litter("t"), "a file in the place of a folder: refused");
	fresh();
	folder("");
	file("f", "x");
	folder("f");
	end();
	ok(run() < 0, "a folder in the place of a file: refused");
	fresh();
	folder("");
	file("f", "one");
	file("f", "two");
	end();
	ok(run() == 0 && holds("t/f", "two"), "a file twice: the second stands");
	fresh();
	folder("");
	folder("");
	end();
	ok(run() < 0, "the top twice: refused");
	fresh();
	file("f", "x");
	end();
	ok(run() < 0, "no top: refused");
	fresh();
	end();
	ok(run() < 0, "nothing at all: refused");
	fresh();
	how.folder = true;
	file("", "x");
	end();
	ok(run() < 0, "a file where a folder is wanted: refused");
}

static void test_bounds(void)
{
	char text[1001];

	memset(text, 'x', 1000);
	text[1000] = '\0';
	fresh();
	file("", text);
	end();
	ok(run() == 0, "as many bytes as allowed");
	fresh();
	folder("");
	file("a", text);
	file("b", "x");
	end();
	ok(run() < 0 && e.code == SP_DENIED && no_litter("t") && !holds("t/b", "x"),
	   "one more: refused");
	for (int n = 10; n < 12; n++) {
		fresh();
		folder("");
		for (int i = 1; i < n; i++) {
			snprintf(text, sizeof text, "f%d", i);
			file(text, "");
		}
		end();
		ok((run() == 0) == (n == 10), "%d entries of ten", n);
	}
	fresh();
	put_raw('f', 0600, UINT64_MAX, "", 0, "", "xxx");
	ok(run() < 0 && no_litter("."), "a size without end: refused");
	fresh();
	put_raw('f', 0600, 900, "", 0, "", "xxx");
	ok(run() < 0 && no_litter(".") && faccessat(out, "t", F_OK, 0) < 0,
	   "a stream that breaks off in a file: refused, and no part of it stays");
	fresh();
	folder("");
	file("f", "x");
	ok(run() < 0, "one that breaks off between files: refused");
	fresh();
	folder("");
	end();
	sp_str_addc(&s, 'x');
	ok(run() < 0, "one that goes on after its end: refused");
}

int main(void)
{
	static char longest[256];

	if (!mkdtemp(dir))
		return 1;
	test_good();
	test_path("d/x", 3, true, "a path");
	test_path("../outside/x", 12, false, "..");
	test_path("d/../../../outside/x", 20, false, ".. inside");
	test_path("/tmp/x", 6, false, "an absolute path");
	test_path("d//x", 4, false, "an empty component");
	test_path("./x", 3, false, "a dot");
	test_path("d/x\0y", 5, false, "a NUL");
	test_path("n/x", 3, false, "a folder that was not told");
	memset(longest, 'a', 255);
	test_path(longest, 255, true, "the longest name");
	test_path("aaaa", 4, true, "a short one");
	test_links();
	test_kinds();
	test_bounds();
	fresh();
	close(out);
	sp_str_free(&s);
	snprintf(longest, sizeof longest, "rm -rf %s", dir);
	return system(longest) || tap_done();
}
