/* SPDX-License-Identifier: Apache-2.0 */
/* The store on a real loop-backed btrfs: made, found, mounted again, grown, refused, taken down. */
#include <errno.h>
#include <sched.h>
#include <signal.h>

#include "store_rig.h"

static int64_t store_free(const struct sp_roots *r)
{
	struct statfs f;

	return fstatfs(r->store, &f) < 0 ? -1 : (int64_t)f.f_bavail * (int64_t)f.f_bsize;
}

static struct stat stat_of(const char *name)
{
	char path[400];
	struct stat st = { 0 };

	snprintf(path, sizeof path, "%s/%s", rig_state, name);
	if (lstat(path, &st) < 0)
		st.st_mode = 0;
	return st;
}

static void making(void)
{
	struct sp_roots r;
	struct sp_err e;
	struct stat st;
	int64_t begun, best = INT64_MAX;

	ok(rig_open(&r, false, &e) == SP_ABSENT, "nothing there: absent");
	ok(!stat_of("").st_mode, "and nothing made");
	if (!ok(rig_open(&r, true, &e) == 0, "made"))
		printf("# %s\n", e.msg);
	ok(rig_mounts() == 1 && rig_loops() == 1, "one mount, one loop device");
	ok(rig_count_in("/proc/self/mounts", rig_state, "discard") == 0, "no discard");
	st = stat_of("store.img");
	ok(st.st_size == 256 << 20 && st.st_blocks * 512 >= st.st_size, "allocated, not sparse");
	ok((st.st_mode & 077) == 0 && (stat_of("").st_mode & 077) == 0 &&
		   (stat_of("store").st_mode & 077) == 0 &&
		   (stat_of("store.id").st_mode & 077) == 0,
	   "all of it private");
	ok(sp_fs_exists(r.store, SP_DIR_OPS) && sp_fs_exists(r.store, SP_DIR_WARM) &&
		   sp_fs_exists(r.store, "format"),
	   "its folders");
	is_str(r.state_path, rig_state, "its path");
	ok(sp_fs_replace(r.store, "kept", "x", 1, 0600, &e) == 0, "something in it");
	sp_roots_close(&r);
	for (int i = 0; i < 30; i++) {
		begun = sp_clock_mono();
		if (sp_store_open(&r, i % 2, &e) < 0)
			break;
		if (sp_clock_mono() - begun < best)
			best = sp_clock_mono() - begun;
		sp_roots_close(&r);
	}
	ok(best < 1000000, "opening it takes %lld us", (long long)best / 1000);
	ok(rig_mounts() == 1 && rig_loops() == 1, "still one mount");
}

static void again(void)
{
	struct sp_roots r, hold;
	struct sp_err e;

	ok(rig_open(&hold, false, &e) == 0, "someone has it open");
	ok(sp_store_close_down(rig_state, &e) < 0 && e.code == SP_BUSY, "in use: not taken down");
	sp_roots_close(&hold);
	ok(rig_down() == 0 && rig_mounts() == 0 && rig_loops() == 0, "taken down, nothing left");
	ok(rig_down() == 0, "again: fine");
	ok(rig_open(&r, false, &e) == 0 && sp_fs_exists(r.store, "kept"),
	   "as after a reboot: mounted");
	ok(rig_mounts() == 1 && rig_loops() == 1, "once");
	sp_roots_close(&r);
}

static void refused(void)
{
	struct sp_roots r;
	struct sp_err e;
	char id[64] = "";
	sp_auto_fd dir = open(rig_state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	sp_auto_str text = SP_STR_INIT;

	chmod(rig_state, 0770);
	ok(rig_open(&r, true, &e) == SP_DENIED && strstr(e.msg, "written by others"),
	   "a root that others can write");
	chmod(rig_state, 0700);
	ok(chown(rig_state, 12345, 0) == 0 && rig_open(&r, true, &e) == SP_DENIED, "a stranger's");
	ok(chown(rig_state, 0, 0) == 0 && chmod(rig_run, 0777) == 0 &&
		   rig_open(&r, true, &e) == SP_DENIED,
	   "the same for RUN");
	chmod(rig_run, 0700);
	setenv("SPACE_STATE", "state", 1);
	ok(rig_open(&r, true, &e) == SP_USAGE, "a relative path");
	setenv("SPACE_STATE", rig_state, 1);

	ok(sp_fs_read(dir, "store.id", 64, &text, &e) == 0, "its id");
	snprintf(id, sizeof id, "%s", text.p);
	id[0] = id[0] == '0' ? '1' : '0';
	ok(sp_fs_replace(dir, "store.id", id, strlen(id), 0600, &e) == 0 &&
		   rig_open(&r, true, &e) == SP_FAIL && strstr(e.msg, "is not the one"),
	   "another file system than the one that was made");
	sp_fs_replace(dir, "store.id", text.p, text.len, 0600, &e);
	ok(rig_open(&r, true, &e) == 0 && sp_fs_replace(r.store, "format", "2\n", 2, 0600, &e) == 0,
	   "the right one");
	sp_roots_close(&r);
	ok(rig_open(&r, true, &e) == SP_HOST && strstr(e.msg, "newer"), "of a newer release");
	ok(rig_down() == 0, "taken down all the same");
}

static void plain_folder(void)
{
	struct sp_roots r;
	struct sp_err e;
	char path[400];

	snprintf(path, sizeof path, "%s/store/mine", rig_state);
	ok(sp_fs_mkdir_path(path, 0700, &e) == 0 && rig_open(&r, true, &e) == SP_CONFLICT,
	   "a folder with something in it is in the way");
	ok(!stat_of("store.img").st_mode && !stat_of("store.id").st_mode && rig_loops() == 0,
	   "and nothing half made stays");
	ok(sp_fs_remove_tree(AT_FDCWD, rig_state, &e) == 0, "removed");
	setenv("SPACE_STORE_SIZE", "1M", 1);
	ok(rig_open(&r, true, &e) == SP_USAGE, "too small a size");
	setenv("SPACE_STORE_SIZE", "x", 1);
	ok(rig_open(&r, true, &e) == SP_USAGE, "no size");
	setenv("SPACE_STORE_SIZE", "256M", 1);
	sp_fs_remove_tree(AT_FDCWD, rig_state, &e);
}

static void two_at_once(void)
{
	struct sp_roots r;
	struct sp_err e;
	int bad = 0, status;

	fflush(stdout);
	for (int i = 0; i < 4; i++)
		if (fork() == 0)
			_exit(rig_open(&r, true, &e));
	for (int i = 0; i < 4; i++) {
		wait(&status);
		bad += status != 0;
	}
	ok(!bad && rig_mounts() == 1 && rig_loops() == 1, "four at once make one store");
}

/* --- growth ----------------------------------------------------------------------------------- */

static void growth(void)
{
	struct sp_roots r;
	struct sp_err e;
	char path[400];
	sp_auto_fd img = -1;
	int64_t before, room;

	ok(rig_open(&r, true, &e) == 0 && store_free(&r) < SP_STORE_RESERVE,
	   "a store below its reserve");
	if (!ok(sp_store_need(&r, 0, &e) == 0, "grows"))
		printf("# %s\n", e.msg);
	ok(store_free(&r) >= SP_STORE_RESERVE, "until the reserve is there");
	before = stat_of("store.img").st_size;
	ok(sp_store_need(&r, 0, &e) == 0 && stat_of("store.img").st_size == before,
	   "and no further");
	ok(sp_store_need(&r, 100 << 20, &e) == 0 &&
		   store_free(&r) >= SP_STORE_RESERVE + (100 << 20) &&
		   stat_of("store.img").st_blocks * 512 >= stat_of("store.img").st_size,
	   "for more, too; never sparse");
	ok(sp_store_need(&r, -1, &e) < 0 && sp_store_need(&r, INT64_MAX, &e) < 0 &&
		   e.code == SP_USAGE,
	   "absurd sizes");
	ok(sp_store_need(&r, INT64_MAX / 8, &e) < 0 && e.code == SP_BUSY && strstr(e.msg, "free"),
	   "more than the disk has");

	/* A growth that was cut short after the file had become longer. */
	snprintf(path, sizeof path, "%s/store.img", rig_state);
	img = open(path, O_RDWR | O_CLOEXEC);
	before = stat_of("store.img").st_size;
	ok(fallocate(img, 0, before, 64 << 20) == 0, "a file longer than its device");
	sp_fd_close(&img);
	ok(sp_store_need(&r, store_free(&r) - SP_STORE_RESERVE + (32 << 20), &e) == 0 &&
		   stat_of("store.img").st_size == before + (64 << 20),
	   "is put to use before it grows again");
	sp_roots_close(&r);
	ok(rig_open(&r, false, &e) == 0, "open");
	room = store_free(&r);
	sp_roots_close(&r);
	ok(rig_down() == 0, "taken down");
	img = open(path, O_RDWR | O_CLOEXEC);
	ok(fallocate(img, 0, before + (64 << 20), 64 << 20) == 0, "the same, found after a boot");
	sp_fd_close(&img);
	ok(rig_open(&r, false, &e) == 0, "mounted");
	ok(store_free(&r) >= room + (60 << 20), "with all its room");
	sp_roots_close(&r);
	ok(rig_down() == 0, "taken down again");
}

static void full_host(void)
{
	struct sp_roots r;
	struct sp_err e;
	int64_t before;

	if (rig_disk("ext4", "ext4", 600 << 20) < 0) {
		ok(false, "a small disk");
		return;
	}
	rig_place("/ext4");
	setenv("SPACE_STORE_SIZE", "550M", 1);
	ok(rig_open(&r, true, &e) == SP_BUSY && strstr(e.msg, "550 MiB") &&
		   strstr(e.msg, "MiB free"),
	   "a store that would fill its host is refused");
	printf("# %s\n", e.msg);
	ok(!stat_of("store.img").st_mode && rig_loops() == 1, "and nothing of it stays");
	setenv("SPACE_STORE_SIZE", "256M", 1);
	ok(rig_open(&r, true, &e) == 0, "a smaller one is made");
	before = stat_of("store.img").st_size;
	ok(sp_store_need(&r, 0, &e) < 0 && e.code == SP_BUSY, "it cannot grow: busy");
	printf("# %s\n", e.msg);
	ok(strstr(e.msg, "512 MiB") && strstr(e.msg, "stay with the host"), "with figures");
	ok(stat_of("store.img").st_size == before, "and is as before");
	sp_roots_close(&r);
	ok(rig_down() == 0, "taken down");
	rig_disk_gone("ext4");
	rig_place("");
}

/* --- on btrfs, and from other namespaces ------------------------------------------------------ */

static void on_btrfs(void)
{
	struct sp_roots r;
	struct sp_err e;
	char path[400];
	sp_auto_fd dir = -1;

	if (rig_disk("btrfs", "btrfs", 600 << 20) < 0) {
		ok(false, "a btrfs disk");
		return;
	}
	rig_place("/btrfs");
	ok(rig_open(&r, false, &e) == SP_ABSENT, "nothing there");
	ok(rig_open(&r, true, &e) == 0, "made");
	dir = open(rig_state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ok(sp_vol_is_subvolume(dir, "store") && !sp_fs_exists(dir, "store.img") &&
		   rig_mounts() == 0 && rig_loops() == 1,
	   "as a subvolume: no image, no mount");
	ok(sp_fs_exists(r.store, SP_DIR_OPS) && sp_fs_exists(r.store, "format"),
	   "with its folders");
	ok(sp_store_need(&r, 1LL << 40, &e) < 0 && e.code == SP_BUSY, "no room: busy");
	sp_roots_close(&r);
	ok(rig_open(&r, false, &e) == 0, "found again");
	sp_roots_close(&r);
	ok(rig_down() == 0 && sp_vol_is_subvolume(dir, "store"), "taking down leaves it");
	ok(sp_vol_remove_tree(dir, "store", &e) == 0 && sp_vol_create(dir, ".new-x", &e) == 0 &&
		   sp_fs_mkdir(dir, "store", 0700, &e) == 0 && rig_open(&r, true, &e) == 0,
	   "made in place of an empty folder, beside one half made");
	ok(!sp_fs_exists(dir, ".new-x"), "which is gone");
	sp_roots_close(&r);
	snprintf(path, sizeof path, "%s/store", rig_state);
	sp_vol_delete(dir, "store", &e);
	sp_fd_close(&dir);
	rig_disk_gone("btrfs");
	rig_place("");
}

/* Process 1 of a pid namespace of its own, and below it a tool in a mount namespace of its own. */
static int other_namespace(void)
{
	struct sp_roots r;
	struct sp_err e;
	int status = 1;

	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("proc", "/proc", "proc", 0, NULL) < 0)
		return 10;
	if (fork() == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
			_exit(20);
		if (rig_open(&r, true, &e) != 0 ||
		    sp_fs_replace(r.store, "there", "x", 1, 0600, &e) < 0) {
			printf("# %s\n", e.msg);
			fflush(stdout);
			_exit(21);
		}
		_exit(rig_mounts() == 0 ? 0 : 22);
	}
	wait(&status);
	if (status)
		return WEXITSTATUS(status);
	if (rig_mounts() != 1)
		return 11;
	if (rig_open(&r, false, &e) != 0 || !sp_fs_exists(r.store, "there"))
		return 12;
	sp_roots_close(&r);
	if (fork() == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
		    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
			_exit(30);
		umount("/proc"); /* ours; the one below is of another pid namespace */
		if (mount("proc", "/proc", "proc", 0, NULL) < 0)
			_exit(31);
		if (sp_store_close_down(rig_state, &e) == 0 || e.code != SP_BUSY)
			_exit(32);
		/* The device lives on with our copy of the mount: it is found, not doubled. */
		if (rig_open(&r, false, &e) != 0 || rig_loops() != 1)
			_exit(33);
		sp_roots_close(&r);
		_exit(sp_store_close_down(rig_state, &e) < 0 && e.code == SP_BUSY ? 0 : 34);
	}
	wait(&status); /* the tool's own namespace has a copy of the mount */
	if (status)
		return WEXITSTATUS(status);
	if (rig_mounts() != 0)
		return 13;
	return sp_store_close_down(rig_state, &e) < 0 ? 14 : 0;
}

static void namespaces(void)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	if (fork() == 0) {
		if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
			_exit(77);
		pid = fork();
		if (pid == 0)
			_exit(other_namespace());
		waitpid(pid, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
	}
	wait(&status);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		tap_skip("other namespaces", "none can be made here");
	else
		ok(status == 0, "a tool in another mount namespace mounts where process 1 is (%d)",
		   WEXITSTATUS(status));
	ok(rig_mounts() == 0 && rig_loops() == 0, "and nothing is left");
}

int main(void)
{
	struct sp_err e;

	if (!rig_may())
		return 0;
	tmp_make();
	rig_place("");
	alarm(200);
	making();
	again();
	refused();
	sp_fs_remove_tree(AT_FDCWD, rig_state, &e);
	plain_folder();
	two_at_once();
	growth();
	sp_fs_remove_tree(AT_FDCWD, rig_state, &e);
	namespaces();
	full_host();
	on_btrfs();
	tmp_clear();
	return tap_done();
}
