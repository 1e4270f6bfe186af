/* SPDX-License-Identifier: Apache-2.0 */
/* The guest agent's files and trees, from outside. */
#include <sys/stat.h>

#include "agent_host.h"
#include "guest/tree.h"
#include "tap.h"

static char top[] = "/tmp/space-agent-XXXXXX";

static const char *in_top(const char *name)
{
	static char path[4][512];
	static unsigned turn;

	turn = (turn + 1) % 4;
	snprintf(path[turn], sizeof path[turn], "%s/%s", top, name);
	return path[turn];
}

static void make(const char *name, const char *text, mode_t mode)
{
	int fd = open(in_top(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, mode))
		abort();
	close(fd);
}

static const char *content(const char *name)
{
	static char text[256];
	int fd = open(in_top(name), O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n < 0 ? NULL : text;
}

static struct stat look(const char *name)
{
	struct stat st = { 0 };

	if (lstat(in_top(name), &st))
		memset(&st, 0, sizeof st);
	return st;
}

static unsigned count(const char *name) /* of names in a folder, hidden ones too */
{
	char command[600];
	unsigned n = 999;
	FILE *f;

	snprintf(command, sizeof command, "ls -A %s | wc -l", in_top(name));
	f = popen(command, "r");
	if (f && fscanf(f, "%u", &n) != 1)
		n = 999;
	if (f)
		pclose(f);
	return n;
}

static struct run *ask(struct host *h, enum sp_g_type type, const char *path, const char *link,
		       int mode, const char *user)
{
	static unsigned char mem[8192];
	struct sp_fields f;

	sp_fields_begin(&f, mem, sizeof mem);
	sp_fields_add_str(&f, SP_T_PATH, path);
	sp_fields_add_str(&f, SP_T_LINK, link);
	sp_fields_add_str(&f, SP_T_USER, user);
	if (mode >= 0)
		sp_fields_add_u32(&f, SP_T_MODE, (uint32_t)mode);
	return host_open(h, type, &f);
}

static bool done(struct host *h, struct run *r)
{
	bool good = host_until(h, run_over(r)) && r->ended;

	if (!good)
		printf("# %d: %s\n", r->code, r->message);
	run_free(h, r);
	return good;
}

static int refused(struct host *h, struct run *r)
{
	int code = host_until(h, run_over(r)) && r->failed ? r->code : -1;

	run_free(h, r);
	return code;
}

static bool write_file(struct host *h, const char *path, const char *text, int mode,
		       const char *user)
{
	struct run *r = ask(h, SP_G_WRITE, path, NULL, mode, user);

	run_input(h, r, text, strlen(text));
	run_input_eof(h, r);
	return done(h, r);
}

static void reading(struct host *h)
{
	struct run *r;

	make("r", "hello", 0644);
	r = ask(h, SP_G_READ, in_top("r"), NULL, -1, NULL);
	ok(host_until(h, run_over(r)) && r->ended && r->opened && r->eof[0] && r->got[0] == 5,
	   "READ: OPENED, EOF, END");
	is_str(r->out[0].p, "hello", "and the bytes");
	run_free(h, r);
	ok(refused(h, ask(h, SP_G_READ, in_top("none"), NULL, -1, NULL)) == SP_ABSENT,
	   "no such file");
	ok(refused(h, ask(h, SP_G_READ, top, NULL, -1, NULL)) == SP_CONFLICT, "a folder");
	ok(refused(h, ask(h, SP_G_READ, "relative", NULL, -1, NULL)) == SP_USAGE,
	   "a path that is not absolute");
	ok(mkfifo(in_top("fifo"), 0600) == 0, "a fifo");
	r = ask(h, SP_G_READ, in_top("fifo"), NULL, -1, NULL);
	host_quiet(h, 100);
	ok(!run_over(r) && done(h, ask(h, SP_G_STAT, top, NULL, -1, NULL)),
	   "a path that hangs holds up nobody else");
	run_close(h, r);
	unlink(in_top("fifo"));
}

static void writing(struct host *h)
{
	struct run *r;
	struct stat st;

	ok(write_file(h, in_top("w"), "new", 0640, NULL), "WRITE a new file");
	is_str(content("w"), "new", "content");
	ok((look("w").st_mode & 07777) == 0640, "mode");
	ok(write_file(h, in_top("w"), "newer", -1, NULL) && (look("w").st_mode & 07777) == 0640,
	   "again, its mode kept");
	ok(symlink("w", in_top("wl")) == 0 && write_file(h, in_top("wl"), "through", -1, NULL) &&
		   S_ISLNK(look("wl").st_mode) && strcmp(content("w"), "through") == 0,
	   "through a link");
	st = look("w");
	r = ask(h, SP_G_WRITE, in_top("w"), NULL, -1, NULL);
	ok(host_until(h, r->opened), "begun");
	run_input(h, r, "half", 4);
	host_until(h, r->in_acked == 4);
	ok(strcmp(content("w"), "through") == 0, "nothing is seen of it before its end");
	run_close(h, r);
	done(h, ask(h, SP_G_STAT, top, NULL, -1, NULL));
	for (int i = 0; i < 200 && count("") != 3; i++)
		host_step(h, 10);
	ok(count("") == 3 && look("w").st_ino == st.st_ino && strcmp(content("w"), "through") == 0,
	   "given up, it leaves nothing behind");
	ok(refused(h, ask(h, SP_G_WRITE, in_top("no/such"), NULL, -1, NULL)) == SP_ABSENT,
	   "no such folder");
	ok(refused(h, ask(h, SP_G_WRITE, top, NULL, -1, NULL)) == SP_CONFLICT, "onto a folder");
	if (geteuid() == 0) {
		ok(chmod(top, 0755) == 0 && refused(h, ask(h, SP_G_WRITE, in_top("u"), NULL, -1,
							   "nobody")) == SP_DENIED,
		   "as a user who may not");
		ok(chmod(top, 01777) == 0 && write_file(h, in_top("u"), "x", -1, "nobody") &&
			   look("u").st_uid == 65534,
		   "as one who may: it is that user's");
		unlink(in_top("u"));
	}
}

static void names(struct host *h)
{
	const unsigned char *e;
	struct run *r;
	char text[64];
	uint32_t len;

	r = ask(h, SP_G_STAT, in_top("wl"), NULL, -1, NULL);
	ok(host_until(h, run_over(r)) && r->ended && r->nentries == 1, "STAT a link");
	memcpy(&len, r->entries.p, 4);
	e = (const unsigned char *)r->entries.p + 4;
	ok(S_ISLNK(sp_fields_num(e, len, SP_T_MODE, 0)) &&
		   sp_fields_text(e, len, SP_T_LINK, text, sizeof text) == 0 &&
		   strcmp(text, "w") == 0,
	   "itself, and its text");
	run_free(h, r);
	r = ask(h, SP_G_LIST, top, NULL, -1, NULL);
	ok(host_until(h, run_over(r)) && r->ended && r->nentries == 3, "LIST");
	memcpy(&len, r->entries.p, 4);
	ok(sp_fields_text((const unsigned char *)r->entries.p + 4, len, SP_T_PATH, text,
			  sizeof text) == 0 &&
		   strcmp(text, "r") == 0,
	   "names, sorted");
	run_free(h, r);
	ok(refused(h, ask(h, SP_G_LIST, in_top("r"), NULL, -1, NULL)) == SP_FAIL, "not of a file");
	ok(done(h, ask(h, SP_G_MKDIR, in_top("a/b/c"), NULL, 0750, NULL)) &&
		   (look("a/b/c").st_mode & 07777) == 0750 && (look("a/b").st_mode & 07777) == 0755,
	   "MKDIR with its parents");
	ok(done(h, ask(h, SP_G_MKDIR, in_top("a/b/c"), NULL, 0700, NULL)) &&
		   (look("a/b/c").st_mode & 07777) == 0750,
	   "again is fine and changes nothing");
	ok(refused(h, ask(h, SP_G_MKDIR, in_top("r"), NULL, 0700, NULL)) == SP_CONFLICT,
	   "not over a file");
	ok(done(h, ask(h, SP_G_MOVE, in_top("r"), in_top("a/r2"), -1, NULL)) &&
		   strcmp(content("a/r2"), "hello") == 0,
	   "MOVE");
	ok(refused(h, ask(h, SP_G_MOVE, in_top("r"), in_top("x"), -1, NULL)) == SP_ABSENT,
	   "not what is gone");
	ok(symlink(top, in_top("a/b/up")) == 0 &&
		   done(h, ask(h, SP_G_REMOVE, in_top("a"), NULL, -1, NULL)) &&
		   !look("a").st_mode && strcmp(content("w"), "through") == 0,
	   "REMOVE a tree, following no link");
	ok(refused(h, ask(h, SP_G_REMOVE, in_top("a"), NULL, -1, NULL)) == SP_ABSENT, "not twice");
	ok(refused(h, ask(h, SP_G_REMOVE, "/", NULL, -1, NULL)) == SP_USAGE, "never '/'");
	ok(refused(h, ask(h, SP_G_REMOVE, in_top(".."), NULL, -1, NULL)) == SP_USAGE, "nor '..'");
}

/* Trees */

static void tree_add(struct sp_str *s, char kind, const char *path, uint32_t mode, const char *link,
		     const char *bytes)
{
	unsigned char head[SP_TREE_HEADER];
	static struct sp_tree_record r;

	memset(&r, 0, sizeof r);
	r.kind = kind;
	r.mode = mode;
	r.mtime = kind == 'e' ? 0 : 1234567890123456789;
	r.size = bytes ? strlen(bytes) : 0;
	r.path_len = (uint16_t)strlen(path);
	r.link_len = (uint16_t)(link ? strlen(link) : 0);
	sp_tree_pack(&r, head);
	sp_str_addn(s, head, sizeof head);
	sp_str_add(s, path);
	if (link)
		sp_str_add(s, link);
	if (bytes)
		sp_str_add(s, bytes);
}

static struct run *put(struct host *h, const char *path, const struct sp_str *tree)
{
	struct run *r = ask(h, SP_G_PUT, path, NULL, -1, NULL);

	for (size_t at = 0; at < tree->len;) {
		size_t n = tree->len - at < 60000 ? tree->len - at : 60000;

		run_input(h, r, tree->p + at, n);
		at += n;
		host_step(h, 0);
		host_until(h, r->in_end - r->in_acked < 3 * 60000 || run_over(r));
	}
	run_input_eof(h, r);
	return r;
}

static void round_trip(struct host *h)
{
	sp_auto_free char *big = sp_xcalloc(1, 300001);
	struct run *r;
	sp_auto_str copy = SP_STR_INIT;

	memset(big, 'b', 300000);
	ok(mkdir(in_top("src"), 0755) == 0 && mkdir(in_top("src/d"), 0755) == 0, "a tree");
	make("src/d/f", "text", 0754);
	make("src/big", big, 0600);
	make("src/empty", "", 04644);
	ok(symlink("../outside/of", in_top("src/l")) == 0 && mkfifo(in_top("src/p"), 0600) == 0,
	   "with a link and a fifo");
	ok(chmod(in_top("src/d"), 0555) == 0, "and a folder that none may write");
	ok(utimensat(AT_FDCWD, in_top("src/d"), ((struct timespec[]){ { 1, 5 }, { 1, 5 } }), 0) ==
		   0,
	   "of a certain time");
	r = ask(h, SP_G_GET, in_top("src"), NULL, -1, NULL);
	ok(host_until(h, run_over(r)) && r->ended && r->eof[0], "GET");
	sp_str_addn(&copy, r->out[0].p, r->out[0].len);
	run_free(h, r);
	ok(done(h, put(h, in_top("dst"), &copy)), "PUT elsewhere");
	ok(look("dst/d").st_mode == (S_IFDIR | 0555) && look("dst/d").st_mtim.tv_sec == 1 &&
		   look("dst/d").st_mtim.tv_nsec == 5,
	   "a folder's mode and time");
	ok(look("dst/d/f").st_mode == (S_IFREG | 0754) &&
		   look("dst/d/f").st_mtim.tv_nsec == look("src/d/f").st_mtim.tv_nsec &&
		   strcmp(content("dst/d/f"), "text") == 0,
	   "a file's");
	ok(look("dst/empty").st_mode == (S_IFREG | 04644) && look("dst/big").st_size == 300000,
	   "of any size");
	ok(S_ISLNK(look("dst/l").st_mode) && !look("dst/p").st_mode, "the link, not the fifo");
	make("dst/empty", "full", 0600);
	make("dst/more", "mine", 0600);
	ok(done(h, put(h, in_top("dst"), &copy)) && look("dst/empty").st_size == 0 &&
		   strcmp(content("dst/more"), "mine") == 0,
	   "onto what is there: replaced or kept");
	ok(count("dst") == 5, "and nothing else is left");
	chmod(in_top("src/d"), 0755);
	chmod(in_top("dst/d"), 0755);
}

static void single(struct host *h)
{
	sp_auto_str copy = SP_STR_INIT;
	struct run *r = ask(h, SP_G_GET, in_top("src/d/f"), NULL, -1, NULL);

	ok(host_until(h, run_over(r)) && r->ended, "GET one file");
	sp_str_addn(&copy, r->out[0].p, r->out[0].len);
	run_free(h, r);
	ok(done(h, put(h, in_top("one"), &copy)) && strcmp(content("one"), "text") == 0, "PUT it");
	ok(refused(h, put(h, in_top("dst"), &copy)) == SP_CONFLICT, "never over a folder");
	ok(refused(h, put(h, in_top("no/such"), &copy)) == SP_ABSENT, "into no new folder");
	r = ask(h, SP_G_GET, "/proc/self/status", NULL, -1, NULL);
	ok(host_until(h, run_over(r)) && r->ended && r->out[0].len > 300,
	   "a file whose size is told as 0");
	run_free(h, r);
	ok(refused(h, ask(h, SP_G_GET, in_top("none"), NULL, -1, NULL)) == SP_ABSENT,
	   "no such path");
	ok(refused(h, ask(h, SP_G_GET, in_top("src/p"), NULL, -1, NULL)) == SP_CONFLICT, "a fifo");
}

static int put_two(struct host *h, char kind, const char *path, const char *link)
{
	sp_auto_str t = SP_STR_INIT;

	tree_add(&t, 'd', "", 0755, NULL, NULL);
	tree_add(&t, 'l', "out", 0777, "/tmp", NULL);
	tree_add(&t, kind, path, 0644, link, kind == 'f' ? "x" : NULL);
	tree_add(&t, 'e', "", 0, NULL, NULL);
	return refused(h, put(h, in_top("bad"), &t));
}

static void hostile(struct host *h)
{
	sp_auto_str t = SP_STR_INIT;
	struct run *r;

	unlink("/tmp/space-agent-escape");
	ok(put_two(h, 'f', "../x", NULL) == SP_USAGE && !look("x").st_mode, "'..' in a path");
	ok(put_two(h, 'f', "/tmp/x", NULL) == SP_USAGE, "an absolute path");
	ok(put_two(h, 'f', "out/space-agent-escape", NULL) == SP_CONFLICT &&
		   access("/tmp/space-agent-escape", F_OK) < 0,
	   "through a link that was put before");
	ok(put_two(h, 'd', "out", NULL) == SP_CONFLICT, "a folder over a link");
	ok(put_two(h, 'f', "no/parent", NULL) == SP_ABSENT, "into a folder that did not come");
	ok(put_two(h, 'd', "", NULL) == SP_USAGE, "a second top");
	tree_add(&t, 'f', "a", 0644, NULL, "x");
	ok(refused(h, put(h, in_top("bad"), &t)) == SP_USAGE, "no top");
	sp_str_clear(&t);
	tree_add(&t, 'd', "", 0755, NULL, NULL);
	ok(refused(h, put(h, in_top("bad"), &t)) == SP_USAGE, "no end");
	sp_str_clear(&t);
	tree_add(&t, 'd', "", 0755, NULL, NULL);
	tree_add(&t, 'e', "", 0, NULL, NULL);
	sp_str_add(&t, "x");
	ok(refused(h, put(h, in_top("bad"), &t)) == SP_USAGE, "more after the end");
	t.len--;
	r = ask(h, SP_G_PUT, in_top("bad"), NULL, -1, NULL);
	run_input(h, r, t.p, t.len);
	host_quiet(h, 200);
	ok(!run_over(r), "END waits for EOF");
	run_input_eof(h, r);
	ok(done(h, r), "and comes then");
	sp_str_clear(&t);
	sp_str_add(&t, "this is no tree at all, whatever it may be");
	ok(refused(h, put(h, in_top("bad"), &t)) == SP_USAGE, "no tree");
}

int main(void)
{
	char command[64];
	struct host h;

	signal(SIGPIPE, SIG_IGN);
	umask(022);
	if (!mkdtemp(top))
		abort();
	ok(host_boot(&h, NULL), "boot");
	reading(&h);
	writing(&h);
	names(&h);
	round_trip(&h);
	single(&h);
	hostile(&h);
	ok(!h.broken, "nothing was said out of turn");
	host_stop(&h);
	snprintf(command, sizeof command, "rm -rf %s", top);
	ok(system(command) == 0, "cleaned up");
	return tap_done();
}
