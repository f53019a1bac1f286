/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "store/store_priv.h"

/*
 * Head-room for a full disk, in two parts of equal size:
 *
 *   store.db-wal      has its blocks allocated beyond its end, so that commits need no space until
 *                     the log is that long. Nobody else can take these blocks.
 *   store.db.reserve  only takes up space. It is removed when the disk is full: then the log can be
 *                     moved into the file, which may have to grow for that, and the log starts
 * over.
 */
void reserve_init(struct reserve *r, const char *path, uint64_t bytes)
{
	r->path = xasprintf("%s.reserve", path);
	r->log = xasprintf("%s-wal", path);
	r->bytes = bytes / 2;
}

void reserve_done(struct reserve *r)
{
	free(r->path);
	free(r->log);
}

static uint64_t allocated(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? 0 : (uint64_t)st.st_blocks * 512;
}

/* Some file systems allocate a block less than was asked for, or account for it elsewhere. */
static bool has(const char *path, uint64_t bytes)
{
	return allocated(path) >= bytes - bytes / 64;
}

/* Not every file system can do this; then there is no head-room. */
static bool allocate(struct reserve *r, const char *path, int mode)
{
	autoclose fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return false;
	if (!fallocate(fd, mode, 0, (off_t)r->bytes))
		return true;
	if (errno == EOPNOTSUPP || errno == ENOSYS)
		r->bytes = 0;
	return false;
}

/* What others write in the meantime must not bring the shortage back at once. */
static bool has_space(const struct reserve *r, uint64_t bytes)
{
	autofree char *dir = xstrdup(r->path);
	struct statvfs fs;

	*(strrchr(dir, '/') ? strrchr(dir, '/') : dir) = '\0';
	if (statvfs(*dir ? dir : ".", &fs) < 0)
		return false;
	return (uint64_t)fs.f_bavail * fs.f_frsize >= bytes + r->bytes / 4;
}

bool reserve_make(struct reserve *r)
{
	bool file = has(r->path, r->bytes), log = has(r->log, r->bytes);

	if (!r->bytes || (file && log))
		return true;
	if (!has_space(r, (file ? 0 : r->bytes) + (log ? 0 : r->bytes)))
		return false;
	if (!file)
		file = allocate(r, r->path, 0);
	if (!file)
		(void)unlink(r->path); /* a part of it helps nobody */
	if (!log)
		log = allocate(r, r->log, FALLOC_FL_KEEP_SIZE);
	return !r->bytes || (file && log);
}

bool reserve_release(struct reserve *r)
{
	return r->bytes && !unlink(r->path);
}
