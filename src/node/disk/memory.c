/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "node/disk/disk_priv.h"

/*
 * A file system in memory whose ids can be mapped, where those of a tmpfs cannot: an ext4 in a file
 * of a tmpfs. The file is sparse, and what is deleted in it is given back. It has no name once it
 * is mounted, and goes with its last mount.
 */
#define IMAGE_NAME ".memory"

static struct err *make_image(const char *file, int64_t size)
{
	autoclose fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	char *const argv[] = { (char[]){ "mkfs.ext4" }, (char[]){ "-q" },
			       (char[]){ "-F" },        (char[]){ "-b" },
			       (char[]){ "4096" }, /* as the loop device has them */
			       (char[]){ "-m" },        (char[]){ "0" },
			       (char[]){ "-O" },        (char[]){ "^has_journal" },
			       (char[]){ "-E" },        (char[]){ "nodiscard,lazy_itable_init=1" },
			       (char *)(uintptr_t)file, NULL };
	autofree char *mkfs = pool_find_program("mkfs.ext4");

	if (!mkfs)
		return err_new(ERR_UNSUPPORTED, "mkfs.ext4 is missing; install e2fsprogs");
	if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
		return err_sys(errno, "create %s", file);
	return program_run(mkfs, argv);
}

/* noinit_itable: the kernel would fill the file with what it knows to be zero already. */
static struct err *mount_image(const char *file, const char *at)
{
	autofree char *device = NULL;
	autoclose loop = -1;
	struct err *e = pool_attach_loop(file, &device, &loop);

	if (!e && mount(device, at, "ext4", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME,
			"discard,noinit_itable") < 0)
		e = err_sys(errno, "mount %s at %s", device, at);
	return e;
}

static struct err *fill_mount(const char *at)
{
	autofree char *lost = xasprintf("%s/lost+found", at);

	if (chmod(at, 0700) < 0 || (rmdir(lost) < 0 && errno != ENOENT))
		return err_sys(errno, "prepare %s", at);
	return NULL;
}

struct err *memory_disk_mount(const char *dir, const char *at, int64_t size)
{
	autofree char *file = xasprintf("%s/" IMAGE_NAME, dir);
	struct err *e = NULL;

	if (pool_is_mount(at))
		return fill_mount(at); /* again, should the last start have ended before that */
	/* What is there already, Pods that run would no longer see change. */
	if (rmdir(at) < 0 && errno == ENOTEMPTY)
		return err_new(ERR_CONFLICT, "%s is in use until the Pods that run have ended", at);
	if (mkdir(at, 0700) < 0 && errno != EEXIST)
		e = err_sys(errno, "create %s", at);
	if (!e)
		e = make_image(file, size);
	if (!e)
		e = mount_image(file, at);
	(void)unlink(file); /* it may not be there yet */
	return e ? e : fill_mount(at);
}

void memory_disk_unmount(const char *at)
{
	if (pool_is_mount(at))
		(void)umount2(at, MNT_DETACH);
}
