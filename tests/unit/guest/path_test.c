/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/runtime/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "guest/runtime/plain.h"
#include "test.h"

/*
 * dir/base: a/b.txt, and links in_rel -> a/b.txt, in_abs -> <base>/a, up -> .., out -> /etc,
 * loop -> loop, chain -> in_abs/b.txt, sneaky -> a/../../outside, beside -> <base>-beside
 */
struct tree_dir {
	char top[64];
	struct base base;
};

static void link_at(const struct base *b, const char *target, const char *name)
{
	is_true(!symlinkat(target, b->fd, name));
}

static void tree_init(struct tree_dir *t)
{
	autofree char *path = NULL, *inside = NULL, *beside = NULL;

	(void)snprintf(t->top, sizeof(t->top), "/tmp/cay-path-XXXXXX");
	is_true(mkdtemp(t->top) != NULL);
	path = xasprintf("%s/base", t->top);
	is_true(!mkdir(path, 0755));
	works(base_open(path, &t->base));
	is_true(!mkdirat(t->base.fd, "a", 0755));
	works(file_write_atomic(t->base.fd, "a/b.txt", "x", 1, 0644));
	inside = xasprintf("%s/a", path);
	link_at(&t->base, "a/b.txt", "in_rel");
	link_at(&t->base, inside, "in_abs");
	link_at(&t->base, "..", "up");
	link_at(&t->base, "/etc", "out");
	link_at(&t->base, "loop", "loop");
	link_at(&t->base, "in_abs/b.txt", "chain");
	link_at(&t->base, "a/../../outside", "sneaky");
	beside = xasprintf("%s-beside", path);
	is_true(!mkdir(beside, 0755));
	link_at(&t->base, beside, "beside");
}

static void tree_done(struct tree_dir *t)
{
	base_done(&t->base);
	works(file_remove_tree(AT_FDCWD, t->top));
}

TEST(paths_inside_become_plain)
{
	static const char *const rows[][2] = {
		{ "", "." },
		{ ".", "." },
		{ "/", "." },
		{ "a/b.txt", "a/b.txt" },
		{ "///a//b.txt", "a/b.txt" },
		{ "a/../a/./b.txt/", "a/b.txt" },
		{ "a/..", "." },
		{ "none/x/../y", "none/y" },
		{ "in_rel", "a/b.txt" },
		{ "in_abs", "a" },
		{ "in_abs/new", "a/new" },
		{ "in_abs/..", "." },
		{ "chain", "a/b.txt" },
	};
	struct tree_dir t;

	tree_init(&t);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *got = NULL;

		works(path_resolve(&t.base, rows[i][0], &got));
		eq_str(got, rows[i][1]);
	}
	tree_done(&t);
}

TEST(paths_outside_are_forbidden)
{
	static const char *const rows[] = {
		"..",     "../etc/passwd", "a/../../etc", "/../etc/passwd",  "up",
		"up/x",   "out",           "out/passwd",  "a/../out/passwd", "sneaky",
		"beside", "beside/x",      "none/../..",  "in_abs/../../x",
	};
	struct tree_dir t;

	tree_init(&t);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char *got = NULL;
		int fd = -1;

		fails(path_resolve(&t.base, rows[i], &got), ERR_FORBIDDEN);
		fails(path_open(&t.base, rows[i], O_RDONLY, &fd), ERR_FORBIDDEN);
		fails(path_create(&t.base, rows[i], &fd), ERR_FORBIDDEN);
		is_true(!got && fd == -1);
	}
	tree_done(&t);
}

TEST(loops_and_endless_paths_are_errors)
{
	autofree char *longest = xmalloc(200000);
	struct tree_dir t;
	char *got = NULL;

	tree_init(&t);
	fails(path_resolve(&t.base, "loop", &got), ERR_SYS);
	memset(longest, 'a', 199999);
	longest[199999] = '\0';
	fails(path_resolve(&t.base, longest, &got), ERR_SYS);
	tree_done(&t);
}

TEST(files_are_created_with_their_directories)
{
	struct tree_dir t;
	int fd = -1;

	tree_init(&t);
	works(path_create(&t.base, "/n1/n2/file", &fd));
	works(fd_write_all(fd, "abc", 3));
	(void)close(fd);
	is_true(file_exists(t.base.fd, "n1/n2/file"));
	works(path_create(&t.base, "n1/n2/file", &fd));
	eq_int(lseek(fd, 0, SEEK_END), 0);
	(void)close(fd);
	works(path_create(&t.base, "in_rel", &fd)); /* through a link that stays inside */
	(void)close(fd);
	fails(path_create(&t.base, "a", &fd), ERR_SYS);
	fails(path_create(&t.base, "a/b.txt/c", &fd), ERR_SYS);
	tree_done(&t);
}

/* The base of the race under way: a directory on the path becomes a link to what is outside. */
static const struct base *racing;

/*
 * In place of the C library's. The path was walked before, and the directory is opened next: this
 * is when somebody inside wants it to lead elsewhere.
 */
int mkdirat(int dirfd, const char *name, mode_t mode)
{
	int r = (int)syscall(SYS_mkdirat, dirfd, name, mode), errnum = errno;

	if (racing && r < 0 && str_eq(name, "a"))
		is_true(!renameat2(racing->fd, "a", racing->fd, "swap", RENAME_EXCHANGE));
	errno = errnum;
	return r;
}

TEST(a_directory_that_becomes_a_link_is_not_entered)
{
	struct tree_dir t;
	int fd = -1;

	tree_init(&t);
	link_at(&t.base, "..", "swap");
	racing = &t.base;
	fails(path_create(&t.base, "a/new", &fd), ERR_SYS);
	racing = NULL;
	is_false(file_exists(t.base.fd, "../new"));
	tree_done(&t);
}

/* What is done where the kernel has no openat2(). */
TEST(a_plain_path_is_opened_name_by_name_and_no_link_is_followed)
{
	static const char *const bad[] = { "in_rel", "in_abs/b.txt", "a/../a/b.txt",
					   "..",     "up/base",      "nothing" };
	struct tree_dir t;
	autofree char *absolute = NULL;
	autoclose in = -1, whole = -1, self = -1;

	tree_init(&t);
	absolute = xasprintf("%s/base/a/b.txt", t.top);
	in = plain_open(t.base.fd, "a/b.txt", O_RDONLY, 0);
	whole = plain_open(AT_FDCWD, absolute, O_RDONLY, 0);
	self = plain_open(t.base.fd, ".", O_RDONLY | O_DIRECTORY, 0);
	is_true(in >= 0 && whole >= 0 && self >= 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		eq_int(plain_open(t.base.fd, bad[i], O_RDONLY, 0), -1);
	tree_done(&t);
}

TEST(the_root_as_base_confines_nothing)
{
	autofree char *got = NULL;
	struct base b;

	works(base_open("/", &b));
	works(path_resolve(&b, "/etc/../etc", &got));
	eq_str(got, "etc");
	base_done(&b);
	fails(base_open("/no/such/dir", &b), ERR_NOT_FOUND);
}
