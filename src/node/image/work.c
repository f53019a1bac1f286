/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/random.h"
#include "base/str.h"
#include "node/image/image_priv.h"

/*
 * Directories for work in progress, images/.import-<random>. Whoever works in one holds a lock on
 * it, which ends with the process, however that ends: what is not locked is a leftover.
 */
#define WORK_PREFIX ".import-"

struct err *work_new(const char *data_dir, char **ret_path, int *ret_fd)
{
	autofree char *path = NULL;
	char tag[13];
	int fd;

	random_hex(tag, sizeof(tag) - 1);
	path = xasprintf("%s/images/" WORK_PREFIX "%s", data_dir, tag);
	if (mkdir(path, 0700) < 0)
		return err_sys(errno, "create directory %s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return err_sys(errno, "lock directory %s", path);
	*ret_fd = fd;
	*ret_path = take(path);
	return NULL;
}

static bool is_left(int dir, const char *name)
{
	autoclose fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* What cannot be removed now is met again by the next command. */
void work_sweep(const char *data_dir)
{
	autofree char *images = images_dir(data_dir);
	DIR *d = opendir(images);
	struct dirent *de;

	while (d && (de = readdir(d))) {
		const char *name = de->d_name;

		if (str_starts(name, WORK_PREFIX) && is_left(dirfd(d), name))
			err_free(file_remove_tree(dirfd(d), name));
		else if (str_starts(name, "names.json.") && str_ends(name, ".tmp"))
			(void)unlinkat(dirfd(d), name, 0);
	}
	if (d)
		(void)closedir(d);
}

uint64_t work_bytes(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *de;
	uint64_t n = 0;

	while (d && (de = readdir(d))) {
		struct stat st;

		if (fstatat(dirfd(d), de->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode))
			n += (uint64_t)st.st_size;
	}
	if (d)
		(void)closedir(d);
	return n;
}
