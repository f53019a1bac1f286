/* SPDX-License-Identifier: Apache-2.0 */
#include "node/disk/regroup.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "test.h"

/* <dir>/volume is the tree, <dir>/outside what must stay as it is. The group is our own, so that no
 * privilege is needed: what the walk reaches is seen by the modes. */
struct bench {
	char dir[40];
	int top, fd;
	struct regroup r;
};

static void put(struct bench *b, const char *path, mode_t mode)
{
	autoclose fd = openat(b->top, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	is_true(fd >= 0 && !fchmod(fd, mode));
}

static void put_dir(struct bench *b, const char *path, mode_t mode)
{
	is_true(!mkdirat(b->top, path, 0700) && !fchmodat(b->top, path, mode, 0));
}

static unsigned mode_of(struct bench *b, const char *path)
{
	struct stat st = { 0 };

	is_true(!fstatat(b->top, path, &st, AT_SYMLINK_NOFOLLOW));
	return st.st_mode & 07777;
}

static void open_bench(struct bench *b)
{
	*b = (struct bench){ .dir = "/tmp/cay-regroup-XXXXXX", .r.gid = getegid() };
	is_true(mkdtemp(b->dir));
	b->top = open(b->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	put_dir(b, "volume", 0700);
	put_dir(b, "outside", 0700);
	put(b, "outside/secret", 0600);
	b->fd = openat(b->top, "volume", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	is_true(b->fd >= 0);
}

static void close_bench(struct bench *b)
{
	eq_int(mode_of(b, "outside"), 0700);
	eq_int(mode_of(b, "outside/secret"), 0600);
	(void)close(b->fd);
	(void)close(b->top);
	works(file_remove_tree(AT_FDCWD, b->dir));
}

TEST(the_group_may_use_everything_in_a_volume_and_nothing_outside)
{
	struct bench b;

	open_bench(&b);
	put_dir(&b, "volume/d", 0700);
	put(&b, "volume/d/file", 0604);
	put(&b, "volume/program", 04755);
	is_true(!mkfifoat(b.top, "volume/fifo", 0600));
	is_true(!symlinkat("../outside", b.top, "volume/link"));
	is_true(!symlinkat("../../outside/secret", b.top, "volume/d/link"));
	is_true(!regroup_done(b.fd, &b.r));
	works(regroup(b.fd, &b.r));
	is_true(regroup_done(b.fd, &b.r));
	eq_int(mode_of(&b, "volume"), 02770);
	eq_int(mode_of(&b, "volume/d"), 02770);
	eq_int(mode_of(&b, "volume/d/file"), 0664);
	eq_int(mode_of(&b, "volume/program"), 0775);
	eq_int(mode_of(&b, "volume/fifo"), 0660);
	eq_int(atomic_load(&b.r.n), 6);
	close_bench(&b);
}

TEST(the_group_may_only_read_what_is_mounted_read_only)
{
	struct bench b;

	open_bench(&b);
	b.r.readonly = true;
	put(&b, "volume/file", 0600);
	works(regroup(b.fd, &b.r));
	eq_int(mode_of(&b, "volume"), 02750);
	eq_int(mode_of(&b, "volume/file"), 0640);
	close_bench(&b);
}

TEST(a_tree_that_is_too_deep_is_refused_and_its_top_stays)
{
	struct bench b;
	int dir;

	open_bench(&b);
	dir = dup(b.fd);
	for (int i = 0; i < REGROUP_DEPTH + 1; i++) {
		int next;

		is_true(!mkdirat(dir, "d", 0700));
		next = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)close(dir);
		dir = next;
	}
	(void)close(dir);
	fails(regroup(b.fd, &b.r), ERR_TOO_LARGE);
	eq_int(mode_of(&b, "volume"), 0700); /* so that the next start tries again */
	close_bench(&b);
}

TEST(a_walk_that_nobody_waits_for_stops)
{
	struct bench b;

	open_bench(&b);
	put(&b, "volume/file", 0600);
	atomic_store(&b.r.stop, true);
	fails(regroup(b.fd, &b.r), ERR_CANCELED);
	eq_int(mode_of(&b, "volume/file"), 0600);
	close_bench(&b);
}

/* An attacker in another Pod, who puts links in the place of files and directories all the time. */
static void *swap(void *arg)
{
	struct bench *b = arg;

	while (!atomic_load(&b->r.stop)) {
		(void)renameat2(b->fd, "d", b->fd, "to-outside", RENAME_EXCHANGE);
		(void)renameat2(b->fd, "file", b->fd, "to-secret", RENAME_EXCHANGE);
	}
	return NULL;
}

TEST(links_that_come_and_go_during_the_walk_lead_nowhere)
{
	struct bench b;
	pthread_t thread;

	open_bench(&b);
	put_dir(&b, "volume/d", 0700);
	put(&b, "volume/d/secret", 0600);
	put(&b, "volume/file", 0600);
	is_true(!symlinkat("../outside", b.top, "volume/to-outside"));
	is_true(!symlinkat("../outside/secret", b.top, "volume/to-secret"));
	is_true(!pthread_create(&thread, NULL, swap, &b));
	for (int i = 0; i < 2000; i++) {
		struct regroup r = { .gid = b.r.gid, .readonly = i % 2 };

		works(regroup(b.fd, &r));
	}
	atomic_store(&b.r.stop, true);
	is_true(!pthread_join(thread, NULL));
	close_bench(&b);
}
