/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/file.h"
#include "base/str.h"
#include "test.h"

/* Removal of trees whose owner wants it to remove something else. */
struct attack {
	char dir[64];
	int fd;
};

/* The attack under way: at the worst moment a directory of the tree becomes a link. */
static const struct attack *racing;

/*
 * In place of the C library's. A directory that is not empty is opened next, so this is when an
 * attacker wants it to lead elsewhere; a thread that tried would win once in many thousand times.
 */
int unlinkat(int dirfd, const char *name, int flags)
{
	int r = (int)syscall(SYS_unlinkat, dirfd, name, flags), errnum = errno;

	if (racing && r < 0 && errnum == ENOTEMPTY && str_eq(name, "d"))
		is_true(!renameat2(racing->fd, "tree/d", racing->fd, "link", RENAME_EXCHANGE));
	errno = errnum;
	return r;
}

static void attack_begin(struct attack *a)
{
	(void)snprintf(a->dir, sizeof(a->dir), "/tmp/cay-remove-test.XXXXXX");
	is_true(mkdtemp(a->dir));
	a->fd = open(a->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	is_true(a->fd >= 0);
}

static void attack_end(struct attack *a)
{
	close(a->fd);
	works(file_remove_tree(AT_FDCWD, a->dir));
}

static void touch(int dirfd, const char *path)
{
	autoclose fd = openat(dirfd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	is_true(fd >= 0);
}

TEST(removal_does_not_enter_a_link_that_was_a_directory)
{
	struct attack a = { 0 };

	attack_begin(&a);
	is_true(!mkdirat(a.fd, "victim", 0700) && !mkdirat(a.fd, "tree", 0700));
	is_true(!mkdirat(a.fd, "tree/d", 0700) && !symlinkat("../victim", a.fd, "link"));
	touch(a.fd, "victim/keep");
	touch(a.fd, "tree/d/f");
	racing = &a;
	fails(file_remove_tree(a.fd, "tree"), ERR_SYS);
	racing = NULL;
	is_true(file_exists(a.fd, "victim/keep"));
	attack_end(&a);
}

TEST(removal_leaves_what_is_mounted_in_a_tree)
{
	struct attack a = { 0 };
	autofree char *at = NULL, *kept = NULL;

	if (unshare(CLONE_NEWNS) < 0)
		skip_because("needs CAP_SYS_ADMIN: makes a mount");
	attack_begin(&a);
	at = xasprintf("%s/tree/mounted", a.dir);
	kept = xasprintf("%s/keep", at);
	is_true(!mkdirat(a.fd, "tree", 0700) && !mkdirat(a.fd, "tree/mounted", 0700));
	is_true(!mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	is_true(!mount("tmpfs", at, "tmpfs", 0, NULL));
	touch(AT_FDCWD, kept);
	fails(file_remove_tree(a.fd, "tree"), ERR_SYS);
	is_true(file_exists(AT_FDCWD, kept));
	is_true(!umount2(at, MNT_DETACH));
	attack_end(&a);
}
