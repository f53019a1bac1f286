/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/str.h"
#include "test.h"

static char dir[64];

/* A new directory; dir becomes its path, the result is a descriptor. */
static int scratch(void)
{
	int fd;

	(void)snprintf(dir, sizeof(dir), "/tmp/cay-file-test.XXXXXX");
	is_true(mkdtemp(dir));
	fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	is_true(fd >= 0);
	return fd;
}

TEST(a_file_is_written_whole_and_read_up_to_a_limit)
{
	autoclose d = scratch();
	autofree char *text = NULL;
	char *none = NULL;
	struct stat st;
	size_t len;

	works(file_write_atomic(d, "a", "hello", 5, 0640));
	works(file_write_atomic(d, "a", "hello!", 6, 0600));
	works(file_read(d, "a", 6, &text, &len));
	eq_str(text, "hello!");
	eq_int(len, 6);
	is_true(!fstatat(d, "a", &st, 0) && (st.st_mode & 0777) == 0600);
	fails(file_read(d, "a", 5, &none, &len), ERR_TOO_LARGE);
	fails(file_read(d, "b", 5, &none, &len), ERR_NOT_FOUND);
	fails(file_write_atomic(d, "no/a", "x", 1, 0600), ERR_NOT_FOUND);
	fails(file_write(d, "b", "x"), ERR_NOT_FOUND);
	works(file_write(d, "a", "HE"));
	is_true(!none);
	works(file_remove_tree(AT_FDCWD, dir));
}

/* What was synced since scratch(), and whether its new name was already there. */
static unsigned n_early_syncs, n_late_syncs, n_dir_syncs;
static const char *watched;

/* In place of the C library's: the order of syncs is a promise that no reader of files can see. */
int fsync(int fd)
{
	struct stat st;

	if (!fstat(fd, &st) && S_ISDIR(st.st_mode))
		n_dir_syncs++;
	else if (watched && file_exists(AT_FDCWD, watched))
		n_late_syncs++;
	else
		n_early_syncs++;
	return (int)syscall(SYS_fsync, fd);
}

TEST(a_file_is_on_disk_before_it_gets_its_name)
{
	autoclose d = scratch();
	autofree char *path = xasprintf("%s/new", dir);

	watched = path;
	n_early_syncs = n_late_syncs = n_dir_syncs = 0;
	works(file_write_atomic(d, "new", "x", 1, 0600));
	eq_int(n_early_syncs, 1);
	eq_int(n_late_syncs, 0);
	eq_int(n_dir_syncs, 1);
	watched = NULL;
	works(file_remove_tree(AT_FDCWD, dir));
}

TEST(a_file_that_is_replaced_waits_for_no_disk)
{
	autoclose d = scratch();
	autofree char *path = xasprintf("%s/a", dir), *text = NULL;
	struct stat st;

	watched = path;
	n_early_syncs = n_late_syncs = n_dir_syncs = 0;
	works(file_replace(d, "a", "long", 4));
	works(file_replace(d, "a", "new", 3));
	eq_int(n_early_syncs + n_late_syncs + n_dir_syncs, 0);
	watched = NULL;
	works(file_read(d, "a", 10, &text, NULL));
	eq_str(text, "new");
	is_true(!fstatat(d, "a", &st, 0) && (st.st_mode & 07777) == 0600);
	is_false(file_exists(d, "a.new"));
	works(file_remove_tree(AT_FDCWD, dir));
}

TEST(a_file_gets_its_mode_whatever_the_umask)
{
	autoclose d = scratch();
	mode_t mask = umask(0077);
	struct stat st;

	works(file_write_atomic(d, "a", "x", 1, 0644));
	(void)umask(mask);
	is_true(!fstatat(d, "a", &st, 0) && (st.st_mode & 07777) == 0644);
	works(file_remove_tree(AT_FDCWD, dir));
}

TEST(a_file_of_zero_and_of_many_bytes_is_read)
{
	autoclose d = scratch();
	autofree char *big = xmalloc(300000), *text = NULL, *empty = NULL;
	size_t len;

	memset(big, 'x', 300000);
	works(file_write_atomic(d, "big", big, 300000, 0600));
	works(file_read(d, "big", 300000, &text, &len));
	eq_int(len, 300000);
	is_true(!memcmp(text, big, len));
	works(file_write_atomic(d, "empty", "", 0, 0600));
	works(file_read(d, "empty", 0, &empty, &len));
	eq_str(empty, "");
	works(file_remove_tree(AT_FDCWD, dir));
}

TEST(directories_are_made_with_their_parents)
{
	autoclose d = scratch();
	autofree char *path = xasprintf("%s/x/y//z/", dir);
	autofree char *below_file = xasprintf("%s/f/g", dir);

	works(file_mkdirs(path, 0700));
	works(file_mkdirs(path, 0700));
	is_true(file_exists(d, "x/y/z"));
	is_false(file_exists(d, "x/y/a"));
	works(file_write_atomic(d, "f", "", 0, 0600));
	fails(file_mkdirs(below_file, 0700), ERR_EXISTS);
	works(file_remove_tree(AT_FDCWD, dir));
	is_false(file_exists(AT_FDCWD, dir));
	works(file_remove_tree(AT_FDCWD, dir));
}

TEST(removal_does_not_follow_links)
{
	autoclose d = scratch();

	works(file_write_atomic(d, "keep", "x", 1, 0600));
	is_true(!mkdirat(d, "tree", 0700) && !symlinkat("../keep", d, "tree/l"));
	is_true(!symlinkat("..", d, "tree/up") && !symlinkat("keep", d, "link"));
	works(file_remove_tree(d, "tree"));
	works(file_remove_tree(d, "link"));
	is_true(file_exists(d, "keep"));
	is_false(file_exists(d, "tree"));
	is_false(file_exists(d, "link"));
	works(file_remove_tree(AT_FDCWD, dir));
}

/* Nests n directories by descriptor, with a file in each. */
static void nest(int d, unsigned n)
{
	int at = dup(d);

	for (unsigned i = 0; i < n; i++) {
		int next, f = openat(at, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

		is_true(f >= 0 && !mkdirat(at, "d", 0700));
		next = openat(at, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
		is_true(next >= 0);
		close(f);
		close(at);
		at = next;
	}
	close(at);
}

TEST(a_tree_deeper_than_any_path_is_removed)
{
	autoclose d = scratch();

	nest(d, 3000);
	works(file_remove_tree(AT_FDCWD, dir));
	is_false(file_exists(AT_FDCWD, dir));
}

TEST(a_hostile_link_stays_inside_the_root)
{
	autoclose d = scratch();
	autoclose fd = -1;
	struct stat a, b;

	is_true(!mkdirat(d, "etc", 0700) && !symlinkat("/etc", d, "l"));
	is_true(!symlinkat("../../../../etc", d, "up"));
	works(file_open_in_root(d, "l", O_PATH | O_DIRECTORY, 0, &fd));
	is_true(!fstat(fd, &a) && !fstatat(d, "etc", &b, 0) && a.st_ino == b.st_ino);
	is_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(take_fd(fd));
	works(file_open_in_root(d, "up", O_PATH | O_DIRECTORY, 0, &fd));
	is_true(!fstat(fd, &a) && a.st_ino == b.st_ino);
	close(take_fd(fd));
	fails(file_open_beneath(d, "l", O_PATH, 0, &fd), ERR_SYS);
	fails(file_open_beneath(d, "../x", O_PATH, 0, &fd), ERR_SYS);
	fails(file_open_beneath(d, "absent", O_RDONLY, 0, &fd), ERR_NOT_FOUND);
	works(file_open_beneath(d, "new", O_RDWR | O_CREAT | O_EXCL, 0600, &fd));
	works(file_remove_tree(AT_FDCWD, dir));
}

TEST(write_all_reports_that_the_reader_left)
{
	int fds[2];

	is_true(!pipe2(fds, O_CLOEXEC));
	works(fd_write_all(fds[1], "abc", 3));
	works(fd_set_nonblock(fds[1]));
	is_true(fcntl(fds[1], F_GETFL) & O_NONBLOCK);
	close(fds[1]);
	fails(fd_write_all(fds[1], "abc", 3), ERR_SYS);
	fails(fd_set_nonblock(fds[1]), ERR_SYS);
	close(fds[0]);
}

TEST(a_path_is_resolved_as_far_as_it_exists)
{
	char top[] = "/tmp/cay-file-XXXXXX";
	autofree char *real = NULL, *link = NULL, *dangling = NULL;

	is_true(mkdtemp(top));
	real = xasprintf("%s/real", top);
	link = xasprintf("%s/link", top);
	dangling = xasprintf("%s/dangling", top);
	is_true(!mkdir(real, 0700) && !symlink("real", link) && !symlink("nowhere", dangling));
	{
		const struct {
			const char *path, *ret;
		} rows[] = {
			{ "/", "/" },
			{ "/tmp/../tmp", "/tmp" },
			{ "/nonexistent/cay", "/nonexistent/cay" },
			{ real, real },
			{ link, real },
			{ dangling, dangling },
			{ "/dev/null/cay", "/dev/null/cay" },
		};
		autofree char *below = xasprintf("%s/a/b", link);
		autofree char *want = xasprintf("%s/a/b", real), *got = file_resolve(below);

		eq_str(got, want);
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			autofree char *one = file_resolve(rows[i].path);

			eq_str(one, rows[i].ret);
		}
	}
	works(file_remove_tree(AT_FDCWD, top));
}

TEST(a_relative_path_begins_in_the_working_directory)
{
	autofree char *here = getcwd(NULL, 0), *got = file_resolve("no-such-directory/x");
	autofree char *want = xasprintf("%s/no-such-directory/x", here);

	eq_str(got, want);
}
