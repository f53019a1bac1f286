/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/leftover.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"

bool is_leftover(const char *name, const char *prefix)
{
	int64_t pid = 0;

	if (!str_starts(name, prefix))
		return false;
	err_free(parse_int(name + strlen(prefix), 1, INT32_MAX, &pid));
	return pid && kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

static bool is_ours(int at, const char *name)
{
	struct stat st;

	return !fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode) && !st.st_uid &&
	       !(st.st_mode & 077);
}

void leftovers_remove(const char *dir, const char *prefix)
{
	DIR *all = opendir(dir);
	struct dirent *de;

	while (all && (de = readdir(all)))
		if (is_leftover(de->d_name, prefix) && is_ours(dirfd(all), de->d_name))
			err_free(file_remove_tree(dirfd(all), de->d_name));
	if (all)
		(void)closedir(all);
}
