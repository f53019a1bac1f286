/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "base/wall.h"
#include "node/image/image_priv.h"

/*
 * The directories of the machine's /usr, empty and owned by root: the layer that makes /usr
 * writable for root of a sandbox. A directory that not everybody may list is left out with all
 * below it: then the machine's own is seen, which belongs to nobody inside and stays closed. So a
 * layer is good for as long as the same directories are open to everybody, which a hash over all of
 * them tells.
 */
enum {
	DEPTH_MAX = 64,
	DIRS_MAX = 1000000,
};

struct walk {
	dev_t dev;
	unsigned n;
	struct sha256 *hash; /* instead of making anything; or NULL */
};

static struct err *walk_dir(struct walk *w, int from, int to, unsigned depth);

static bool is_public(const struct stat *st)
{
	return (st->st_mode & 0005) == 0005 || !wall_stands("host-usr-closed");
}

/* What is gone by now, or is not a directory, is skipped. */
static bool open_sub(const struct walk *w, int from, const char *name, struct stat *st, int *ret)
{
	autoclose fd = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, st) < 0 || st->st_dev != w->dev || !is_public(st))
		return false;
	*ret = take_fd(fd);
	return true;
}

static struct err *make_sub(struct walk *w, int from, int to, const char *name, unsigned depth)
{
	autoclose in = -1, out = -1;
	struct stat st;
	struct err *e;

	if (!open_sub(w, from, name, &st, &in))
		return NULL;
	if (++w->n > DIRS_MAX || depth > DEPTH_MAX)
		return err_new(ERR_EXHAUSTED, "it has more than %d directories or %d levels",
			       DIRS_MAX, DEPTH_MAX);
	if (w->hash) {
		sha256_add(w->hash, name, strlen(name) + 1);
		sha256_add(w->hash, &st.st_mode, sizeof(st.st_mode));
		sha256_add(w->hash, &depth, sizeof(depth));
		return walk_dir(w, in, -1, depth + 1);
	}
	if (mkdirat(to, name, 0755) < 0)
		return err_sys(errno, "create %s", name);
	out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (out < 0 || fchmod(out, st.st_mode & 01777) < 0)
		return err_sys(errno, "open %s", name);
	e = walk_dir(w, in, out, depth + 1);
	if (!e && futimens(out, (const struct timespec[2]){ st.st_mtim, st.st_mtim }) < 0)
		e = err_sys(errno, "set the time of %s", name);
	return e;
}

static struct err *walk_dir(struct walk *w, int from, int to, unsigned depth)
{
	int fd = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *de;
	struct err *e = d ? NULL : err_sys(errno, "list a directory");

	if (!d && fd >= 0)
		(void)close(fd);
	while (!e && (errno = 0, de = readdir(d))) {
		bool may_be = de->d_type == DT_DIR || de->d_type == DT_UNKNOWN;

		if (!may_be || str_eq(de->d_name, ".") || str_eq(de->d_name, "..") ||
		    (!depth && str_eq(de->d_name, "local")))
			continue;
		e = make_sub(w, from, to, de->d_name, depth);
	}
	if (!e && errno)
		e = err_sys(errno, "list a directory");
	if (d)
		(void)closedir(d);
	return e;
}

static struct err *walk_usr(struct sha256 *hash, int dir)
{
	autoclose usr = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct walk w = { .hash = hash };
	struct stat st;

	if (usr < 0 || fstat(usr, &st) < 0)
		return err_sys(errno, "open /usr");
	w.dev = st.st_dev;
	return err_wrap(walk_dir(&w, usr, dir, 0), "look at the directories of /usr");
}

struct err *host_usr_dirs(int dir)
{
	/* The place of the image's own. */
	if (mkdirat(dir, "local", 0755) < 0 || fchmodat(dir, "local", 0755, 0) < 0)
		return err_sys(errno, "create local");
	return walk_usr(NULL, dir);
}

struct err *host_usr_hash(struct sha256 *hash)
{
	return walk_usr(hash, -1);
}
