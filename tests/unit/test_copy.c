/* SPDX-License-Identifier: Apache-2.0 */
/* Copying with the real agent at the other end, whose files are below the test's own folder. */
#include <sys/stat.h>

#include "api/copy.h"
#include "guest_world.h"
#include "tap.h"

static struct world w;
static struct sp_guest g;
static struct sp_err e;

static int sh(const char *script)
{
	char *cmd = NULL;
	int rc;

	assert(asprintf(&cmd, "cd %s && { %s; }", w.dir, script) > 0);
	rc = system(cmd);
	free(cmd);
	return rc;
}

static struct sp_copy job(const char *from, const char *to)
{
	return (struct sp_copy){ .from = from, .to = to, .max_bytes = 1u << 30,
				 .max_entries = 1000 };
}

/* In the paths, "G/" is the guest's folder and "H/" ours. */
static const char *path_of(const char *text)
{
	char name[128];

	if (strncmp(text, "G/", 2) != 0 && strncmp(text, "H/", 2) != 0)
		return text;
	snprintf(name, sizeof name, "%s%s", text[0] == 'G' ? "guest" : "here", text + 1);
	return world_path(&w, name);
}

static int in(const char *from, const char *to)
{
	struct sp_copy c = job(path_of(from), path_of(to));
	int rc = sp_copy_in(&g, &c, &e);

	if (rc < 0)
		printf("# %s\n", e.msg);
	return rc;
}

static int out(const char *from, const char *to)
{
	struct sp_copy c = job(path_of(from), path_of(to));
	int rc = sp_copy_out(&g, &c, &e);

	if (rc < 0)
		printf("# %s\n", e.msg);
	return rc;
}

/* Two trees are the same: names, kinds, modes, times to the ns, links, content. */
static bool same(const char *a, const char *b)
{
	char script[600];

	snprintf(script, sizeof script,
		 "list() { (cd $1 && find . -printf '%%p %%y %%m %%T@ %%l\\n' | sort; "
		 "find . -type f | sort | xargs -r -d '\\n' sha256sum); }; "
		 "list %s > A; list %s > B; cmp A B",
		 a, b);
	return sh(script) == 0;
}

static void test_operand(void)
{
	static const struct {
		const char *text, *sandbox, *path;
	} t[] = {
		{ "box:/a", "box", "/a" },   { "box:", "box", "/" },
		{ "box:a:b", "box", "a:b" }, { WORLD_ID ":/x", WORLD_ID, "/x" },
		{ "./box:/a", NULL, NULL },  { "a/b:c", NULL, NULL },
		{ ":/a", NULL, NULL },	     { "BOX:/a", NULL, NULL },
		{ "-", NULL, NULL },
	};
	char sandbox[SP_NAME_SIZE];
	const char *path;

	for (size_t i = 0; i < SP_NELEM(t); i++) {
		int rc = sp_copy_operand(t[i].text, sandbox, &path);

		ok(t[i].sandbox ? rc == 1 && strcmp(sandbox, t[i].sandbox) == 0 &&
					  strcmp(path, t[i].path) == 0 :
				  rc == 0,
		   "operand '%s'", t[i].text);
	}
}

static void test_trees(void)
{
	assert(sh("mkdir -p here/src/sub/deep here/src/empty && cd here/src && echo one > one && "
		  "head -c 3000000 /dev/urandom > sub/big && : > sub/none && "
		  "ln -s ../one sub/link && ln -s /nowhere dangling && chmod 750 sub && "
		  "chmod 600 one && chmod 755 sub/big && "
		  "touch -d '2001-02-03 04:05:06.789' one sub/deep && chmod 500 sub/deep") == 0);
	ok(in("H/src", "G/new") == 0 && same("here/src", "guest/new"),
	   "a tree in, to a new name: the same");
	ok(in("H/src", "G/") == 0 && same("here/src", "guest/src"), "into a folder: beneath it");
	assert(sh("mkdir guest/d && ln -s d guest/to-d") == 0);
	ok(in("H/src/", "G/to-d") == 0 && same("here/src", "guest/d/src"),
	   "into a link to a folder: through it");
	ok(in("H/src/.", "G/d") == 0 && sh("test -f guest/d/sub/big") == 0,
	   "'.': what is in it");
	ok(out("G/new", "H/back") == 0 && same("here/src", "here/back"),
	   "a tree out, to a new name: the same");
	ok(out("G/new/", "H/") == 0 && same("here/src", "here/new"), "into a folder: beneath it");
	ok(out("G/new/.", "H/flat") == 0 && same("here/src", "here/flat"), "'.': what is in it");
	ok(out("G/new", "H/back") == 0 && same("here/src", "here/back/new"), "again: beneath it");
	ok(sh("echo two > guest/new/one") == 0 && out("G/new", "H/") == 0 &&
		   sh("grep -q two here/new/one") == 0,
	   "over what is there: replaced");
}

static void test_files(void)
{
	ok(in("H/src/one", "G/file") == 0 && sh("cmp -s here/src/one guest/file") == 0,
	   "a file in");
	ok(in("H/src/one", "G/d") == 0 && sh("cmp -s here/src/one guest/d/one") == 0,
	   "into a folder");
	ok(in("H/src/one", "G/none/") < 0 && e.code == SP_CONFLICT,
	   "to a folder that is not there");
	ok(in("H/src/one", "G/no/such") < 0 && e.code == SP_ABSENT, "below one that is not there");
	ok(in("H/none", "G/") < 0 && e.code == SP_ABSENT, "a file that is not there");
	ok(in("H/src/one", "G/file/") < 0, "a file as a folder");
	ok(out("G/file", "H/file") == 0 && sh("cmp -s here/src/one here/file") == 0, "a file out");
	ok(out("G/none", "H/none") < 0 && e.code == SP_ABSENT && sh("test ! -e here/none") == 0,
	   "one that is not there");
	ok(out("G/file", "H/none/") < 0 && e.code == SP_CONFLICT && sh("test ! -e here/none") == 0,
	   "a file to a folder that is not there");
	ok(out("G/file", "H/no/such") < 0 && e.code == SP_ABSENT, "below one that is not there");
	assert(sh("mkfifo guest/fifo here/fifo here/src/fifo") == 0);
	ok(out("G/fifo", "H/x") < 0 && e.code == SP_CONFLICT, "a fifo out");
	ok(in("H/fifo", "G/x") < 0 && e.code == SP_CONFLICT, "a fifo in");
	ok(out("G/file", "H/fifo") < 0 && sh("test -p here/fifo") == 0, "a file to a fifo");
	ok(in("H/src", "G/again") == 0 && sh("test ! -e guest/again/fifo") == 0,
	   "a fifo in a tree is passed over");
	assert(sh("rm here/src/fifo") == 0);
}

static void test_bounds(void)
{
	struct sp_copy c = job(path_of("G/new"), path_of("H/part"));

	c.max_entries = 5;
	ok(sp_copy_out(&g, &c, &e) < 0 && e.code == SP_DENIED && strstr(e.msg, "not whole"),
	   "too many entries: %s", e.msg);
	c = job(path_of("G/new"), path_of("H/part2"));
	c.max_bytes = 2999999;
	ok(sp_copy_out(&g, &c, &e) < 0 && e.code == SP_DENIED, "too many bytes: %s", e.msg);
	c.max_bytes = 4000000;
	ok(sp_copy_out(&g, &c, &e) == 0, "enough");
}

static void test_streams(void)
{
	int old_in = dup(0), old_out = dup(1), fd;
	int rc;

	fd = open(path_of("H/src/sub/big"), O_RDONLY);
	dup2(fd, 0);
	close(fd);
	ok(in("-", "G/stream") == 0 && sh("cmp -s here/src/sub/big guest/stream") == 0,
	   "standard input into a file");
	dup2(old_in, 0);
	fd = open(path_of("H/stream"), O_WRONLY | O_CREAT, 0600);
	fflush(stdout);
	dup2(fd, 1);
	close(fd);
	rc = out("G/stream", "-");
	dup2(old_out, 1);
	ok(rc == 0 && sh("cmp -s here/src/sub/big here/stream") == 0,
	   "a file to standard output");
	ok(out("G/d", "-") < 0, "a folder is no stream");
	close(old_in);
	close(old_out);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	alarm(120);
	if (!world_begin(&w)) {
		printf("1..0 # SKIP build/bin/space-guest is not built\n");
		world_end(&w);
		return 0;
	}
	mkdir(world_path(&w, "here"), 0700);
	world_start(&w);
	g = world_guest(&w);
	test_operand();
	test_trees();
	test_files();
	test_bounds();
	test_streams();
	sp_json_free(&g.record);
	close(g.dir);
	world_end(&w);
	return tap_done();
}
