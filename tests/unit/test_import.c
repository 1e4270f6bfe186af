/* SPDX-License-Identifier: Apache-2.0 */
/* Whole imports, with their confined processes: needs root. */
#include "tarkit.h"

#include <dirent.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "image/import.h"
#include "jail/jail.h"
#include "sys/fd.h"
#include "sys/fs.h"
#include "tap.h"

#define MIB (1LL << 20)

static struct sp_err e;
static char top[] = "/var/tmp/space-unit-import.XXXXXX";

static const char *at(const char *name)
{
	static char path[8][256];
	static int i;

	i = (i + 1) % 8;
	snprintf(path[i], sizeof path[i], "%s/%s", top, name);
	return path[i];
}

/* --- one import --- */

struct watch {
	int calls;
	int64_t most;
	char status[4096]; /* /proc/PID/status of the unpacker, and its links */
	char net[64];
};

static void look_at_child(struct watch *w)
{
	char path[64], pid[32] = "";
	sp_auto_fd fd = -1;
	ssize_t n;

	snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
	fd = open(path, O_RDONLY);
	n = fd >= 0 ? read(fd, pid, sizeof pid - 1) : 0;
	pid[n > 0 ? strcspn(pid, " ") : 0] = '\0';
	snprintf(path, sizeof path, "/proc/%s/status", pid);
	sp_fd_close(&fd);
	fd = open(path, O_RDONLY);
	n = fd >= 0 ? read(fd, w->status, sizeof w->status - 1) : 0;
	w->status[n > 0 ? n : 0] = '\0';
	snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
	n = readlink(path, w->net, sizeof w->net - 1);
	w->net[n > 0 ? n : 0] = '\0';
}

static void on_progress(int64_t bytes, const char *what, void *arg)
{
	struct watch *w = arg;

	w->calls++;
	if (bytes > w->most)
		w->most = bytes;
	if (!w->status[0] && !strcmp(what, "unpacking"))
		look_at_child(w);
}

/* Imports onto a fresh disk; d is good for disk_has and its like, and must be dropped. */
static int import(const char *source, int in, int64_t size, struct watch *w, struct disk *d,
		  struct sp_str *config, int64_t *content)
{
	struct sp_import im = { .source = source, .stdin_fd = in, .size = size };
	sp_auto_json *c = NULL;
	int rc;

	memset(d, 0, sizeof *d);
	snprintf(d->path, sizeof d->path, "%s", at("disk.img"));
	unlink(d->path);
	im.disk_fd = d->fd = open(d->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (w) {
		im.progress = on_progress;
		im.progress_arg = w;
	}
	*content = 0;
	rc = sp_import_run(&im, &c, content, &e);
	sp_str_clear(config);
	if (rc == 0)
		sp_json_print(c, config);
	else
		printf("# %s\n", e.msg);
	return rc;
}

static bool nobody_left(void)
{
	return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

/* What the test itself needs must work. */
static void must(int rc)
{
	if (rc < 0) {
		perror("# test_import");
		exit(1);
	}
}

static void put_text(const char *name, const char *text)
{
	FILE *f = fopen(at(name), "w");

	if (f) {
		fputs(text, f);
		fclose(f);
	}
}

/* --- sources --- */

static void make_root(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM, 0), fd;

	must(mkdir(at("root"), 0755));
	must(mkdir(at("root/etc"), 0755));
	put_text("root/etc/f", "text");
	must(chown(at("root/etc/f"), 1234, 99999));
	must(chmod(at("root/etc/f"), 04711));
	must(setxattr(at("root/etc/f"), "user.x", "y", 1, 0));
	must(link(at("root/etc/f"), at("root/second")));
	must(symlink("/etc/shadow", at("root/link")));
	must(symlink(at(""), at("root/away")));
	must(mknod(at("root/null"), S_IFCHR | 0666, makedev(1, 3)));
	must(mkfifo(at("root/fifo"), 0600));
	snprintf(un.sun_path, sizeof un.sun_path, "%s", at("root/sock"));
	bind(s, (struct sockaddr *)&un, sizeof un);
	close(s);
	put_text("root/caf\xc3\xa9", "e");
	fd = open(at("root/sparse"), O_RDWR | O_CREAT, 0600);
	if (pwrite(fd, "begin", 5, 0) != 5 || pwrite(fd, "end", 3, 1 << 30) != 3 ||
	    ftruncate(fd, 3LL << 30) < 0)
		exit(1);
	close(fd);
	must(mkdir(at("root/secret"), 0700));
	put_text("root/secret/key", "only root reads this");
	must(chmod(at("root/secret/key"), 0));
}

static void test_folder(void)
{
	sp_auto_str config = SP_STR_INIT;
	struct watch w = { 0 };
	struct stat st;
	struct disk d;
	int64_t content;

	make_root();
	ok(import(at("root"), -1, 0, &w, &d, &config, &content) == 0, "a root folder");
	ok(disk_has(&d, "etc/f", "text") && disk_has(&d, "second", "text"), "files");
	ok(disk_stat_has(&d, "etc/f", "User:  1234   Group: 99999") &&
		   disk_stat_has(&d, "etc/f", "Mode:  04711") &&
		   disk_stat_has(&d, "etc/f", "Links: 2") &&
		   disk_stat_has(&d, "etc/f", "user.x (1) = \"y\""),
	   "owner, mode, links, attributes");
	ok(disk_stat_has(&d, "link", "Fast link dest: \"/etc/shadow\""), "a link is not followed");
	ok(disk_lacks(&d, "away/root") && disk_stat_has(&d, "away", "Type: symlink"),
	   "nor one to a folder");
	ok(disk_stat_has(&d, "null", "01:03") && disk_stat_has(&d, "fifo", "Type: FIFO"), "nodes");
	ok(disk_lacks(&d, "sock"), "a socket is left out");
	ok(disk_has(&d, "caf\xc3\xa9", "e"), "a name in UTF-8");
	ok(disk_stat_has(&d, "sparse", "Size: 3221225472") &&
		   disk_stat_has(&d, "sparse", "Blockcount: 16"),
	   "holes stay holes");
	ok(disk_has(&d, "secret/key", "only root reads this"), "what only root may read");
	ok(fstat(d.fd, &st) == 0 && st.st_uid == 0 && st.st_gid == 0 &&
		   (st.st_mode & 07777) == 0600,
	   "the disk is root's again");
	ok(st.st_size % MIB == 0 && st.st_size >= 1024 * MIB && st.st_size < 1040 * MIB,
	   "its size is the content and more (%lld MiB)", (long long)(st.st_size / MIB));
	ok(st.st_blocks / 2048 < 8, "of which little is stored (%lld KiB)",
	   (long long)st.st_blocks / 2);
	ok(content > 0 && content < 100000, "content: %lld bytes", (long long)content);
	ok(w.calls > 1, "progress was told");
	ok(strstr(config.p, "\"source\":\"/var/tmp/") != NULL, "the source is in the config");
	ok(nobody_left(), "no process is left");
	disk_drop(&d);
}

/* The unpacker, looked at while it works. */
static void test_confined(void)
{
	sp_auto_str config = SP_STR_INIT;
	struct watch w = { 0 };
	struct disk d;
	struct kit k;
	char net[64] = "";
	const char *uid;
	int64_t content;
	sp_auto_free char *big = sp_xcalloc(1, 64 << 20);
	sp_auto_fd fd = -1;

	kit_begin(&k, NULL);
	for (size_t i = 0; i < 64 << 20; i += 997)
		big[i] = 'x';
	for (int i = 0; i < 3; i++) {
		char name[8];

		snprintf(name, sizeof name, "f%d", i);
		kit_put(&k, kit_entry(name, S_IFREG | 0644), big, 64 << 20);
	}
	kit_end(&k);
	fd = open(at("big.tar"), O_RDWR | O_CREAT, 0600);
	sp_fd_write(fd, k.out.p, k.out.len);
	sp_str_free(&k.out);
	ok(import(at("big.tar"), -1, 0, &w, &d, &config, &content) == 0, "a tar of 192 MiB");
	ok(content == 192 << 20 && w.most > 0, "counted");
	uid = strstr(w.status, "\nUid:\t");
	ok(uid && strtoul(uid + 6, NULL, 10) >= SP_JAIL_UID_BASE,
	   "the unpacker has a uid of its own");
	ok(strstr(w.status, "\nCapPrm:\t0000000000000000\n") &&
		   strstr(w.status, "\nCapBnd:\t0000000000000000\n"),
	   "no capability, nor a way to one");
	ok(strstr(w.status, "\nNoNewPrivs:\t1\n") && strstr(w.status, "\nSeccomp:\t2\n"),
	   "a system call filter");
	if (readlink("/proc/self/ns/net", net, sizeof net - 1) < 0)
		net[0] = '\0';
	ok(w.net[0] && strcmp(w.net, net) != 0, "no network");
	disk_drop(&d);
	unlink(at("big.tar"));
}

static void test_stdin(void)
{
	sp_auto_str config = SP_STR_INIT;
	struct disk d;
	struct kit k;
	int64_t content;
	int p[2];

	kit_begin(&k, "zstd");
	kit_file(&k, "hello", "from a pipe");
	kit_end(&k);
	if (pipe2(p, O_CLOEXEC) < 0 || sp_fd_write(p[1], k.out.p, k.out.len) < 0)
		exit(1);
	close(p[1]);
	ok(import("-", p[0], 0, NULL, &d, &config, &content) == 0 &&
		   disk_has(&d, "hello", "from a pipe"),
	   "standard input");
	close(p[0]);
	disk_drop(&d);
	sp_str_free(&k.out);
}

static void test_layout_folder(void)
{
	sp_auto_str config = SP_STR_INIT;
	struct disk d;
	int64_t content;

	must(mkdir(at("oci"), 0755));
	put_text("oci/oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}");
	put_text("oci/index.json", "{\"schemaVersion\":2,\"manifests\":[]}");
	ok(import(at("oci"), -1, 0, NULL, &d, &config, &content) < 0 &&
		   strstr(e.msg, "linux/amd64"),
	   "a layout is known by its files");
	disk_drop(&d);
	unlink(at("oci/index.json"));
	must(symlink("/etc/passwd", at("oci/index.json")));
	ok(import(at("oci"), -1, 0, NULL, &d, &config, &content) == 0 &&
		   disk_stat_has(&d, "index.json", "Type: symlink"),
	   "a link is no such file: the folder is a root");
	disk_drop(&d);
	ok(import("oci:/nowhere", -1, 0, NULL, &d, &config, &content) < 0 && e.code == SP_ABSENT,
	   "no such folder");
	disk_drop(&d);
	{
		char source[300];

		snprintf(source, sizeof source, "oci:%s", at("oci"));
		ok(import(source, -1, 0, NULL, &d, &config, &content) < 0 &&
			   strstr(e.msg, "open 'index.json'"),
		   "said to be a layout, the link is not followed");
		disk_drop(&d);
		unlink(at("oci/index.json"));
		must(mkfifo(at("oci/index.json"), 0600));
		ok(import(source, -1, 0, NULL, &d, &config, &content) < 0 &&
			   strstr(e.msg, "is no file"),
		   "nor is a fifo waited for");
		disk_drop(&d);
	}
	unlink(at("oci/index.json"));
}

/* --- bounds --- */

static int no_room(int64_t bytes, void *arg, struct sp_err *err)
{
	*(int64_t *)arg += bytes;
	return sp_fail(err, SP_BUSY, 0, "no room here");
}

static void test_bounds(void)
{
	sp_auto_str config = SP_STR_INIT;
	struct disk d;
	struct kit k;
	struct stat st;
	int64_t content, asked = 0;
	struct sp_import im = { .stdin_fd = -1, .room = no_room, .room_arg = &asked };
	sp_auto_json *c = NULL;
	sp_auto_free char *big = sp_xmalloc(80 << 20);
	sp_auto_fd fd = -1;

	memset(big, 'b', 80 << 20);
	kit_begin(&k, NULL);
	kit_put(&k, kit_entry("b", S_IFREG | 0644), big, 80 << 20);
	kit_end(&k);
	fd = open(at("b.tar"), O_RDWR | O_CREAT, 0600);
	sp_fd_write(fd, k.out.p, k.out.len);
	ok(import(at("b.tar"), -1, 64 * MIB, NULL, &d, &config, &content) < 0 &&
		   e.code == SP_FAIL && strstr(e.msg, "does not fit in a disk of 64 MiB"),
	   "content that does not fit");
	disk_drop(&d);
	ok(import(at("b.tar"), -1, 200 * MIB - 5, NULL, &d, &config, &content) == 0 &&
		   fstat(d.fd, &st) == 0 && st.st_size == 200 * MIB,
	   "a disk of the size that was asked for, in whole MiB");
	disk_drop(&d);
	ok(import(at("b.tar"), -1, 1 * MIB, NULL, &d, &config, &content) < 0 && e.code == SP_USAGE,
	   "a disk too small for anything");
	disk_drop(&d);
	im.source = at("b.tar");
	im.disk_fd = open(at("disk.img"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ok(sp_import_run(&im, &c, &content, &e) < 0 && e.code == SP_BUSY && asked > 0 &&
		   !strcmp(e.msg, "no room here"),
	   "a store without room");
	im.room = NULL;
	im.max_bytes = 10 * MIB;
	ok(sp_import_run(&im, &c, &content, &e) < 0 && strstr(e.msg, "more than 10485760 bytes"),
	   "more content than allowed: %s", e.msg);
	close(im.disk_fd);
	ok(nobody_left(), "no process is left");
	sp_str_free(&k.out);
}

static void test_wrong(void)
{
	sp_auto_str config = SP_STR_INIT;
	struct disk d;
	int64_t content;
	sp_auto_fd null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	put_text("text", "this is not an archive\n");
	ok(import(at("text"), -1, 0, NULL, &d, &config, &content) < 0 && e.code == SP_FAIL,
	   "a text");
	disk_drop(&d);
	ok(import(at("nothing"), -1, 0, NULL, &d, &config, &content) < 0 && e.code == SP_ABSENT,
	   "a file that is not there");
	disk_drop(&d);
	ok(import("-", null, 0, NULL, &d, &config, &content) < 0 && strstr(e.msg, "empty"),
	   "nothing on standard input");
	disk_drop(&d);
	ok(import("docker://127.0.0.1:1/x", -1, 0, NULL, &d, &config, &content) < 0 &&
		   e.code == SP_BUSY,
	   "a registry that nobody listens at");
	disk_drop(&d);
	ok(import("docker://x/Y", -1, 0, NULL, &d, &config, &content) < 0 && e.code == SP_USAGE,
	   "a reference that is none");
	disk_drop(&d);
	ok(nobody_left(), "no process is left");
}

int main(void)
{
	struct sp_err e2;
	char *slash;

	if (geteuid() != 0) {
		printf("1..0 # SKIP needs root\n");
		return 0;
	}
	setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
	umask(022);
	if (!mkdtemp(top))
		return 1;
	test_folder();
	test_confined();
	test_stdin();
	test_layout_folder();
	test_bounds();
	test_wrong();
	slash = strrchr(top, '/');
	sp_auto_fd dir = open("/var/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ok(sp_fs_remove_tree(dir, slash + 1, &e2) == 0, "cleaned up");
	return tap_done();
}
