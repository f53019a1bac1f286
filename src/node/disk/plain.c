/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "node/disk/disk.h"

/* Directories of whatever file system is there: no limit is enforced. */

static struct err *make(const char *path, unused int64_t limit)
{
	return mkdir(path, 0700) < 0 ? err_sys(errno, "create directory %s", path) : NULL;
}

static struct err *set_limit(unused int dir_fd, unused int64_t limit)
{
	return NULL;
}

static struct err *remove_all(const char *path)
{
	return file_remove_tree(AT_FDCWD, path);
}

static int64_t used(unused const char *path)
{
	return 0; /* counting would mean to look at every file */
}

static void no_sync(unused const char *path)
{
}

/* A directory costs nothing. */
static bool no_spare(unused const char *path)
{
	return false;
}

const struct diskpool_ops disk_plain = {
	.name = "plain",
	.make = make,
	.limit = set_limit,
	.remove = remove_all,
	.give_back = remove_all,
	.used = used,
	.sync = no_sync,
	.keep = no_spare,
	.reuse = no_spare,
};
