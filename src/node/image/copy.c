/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/image/image_priv.h"

/*
 * A root file system copied from a directory. Mounts below the directory, devices and sockets are
 * left out.
 */
enum {
	DEPTH_MAX = 256,
	CHUNK = 1 << 20,
};

struct copy {
	struct layer_job job;
	struct layer_done done;
	dev_t dev;
	char *chunk;
};

static struct err *copy_dir(struct copy *c, int from, int to, unsigned depth);

static struct err *copy_bytes(struct copy *c, int in, int out)
{
	for (;;) {
		ssize_t n = read(in, c->chunk, CHUNK);
		struct err *e;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(errno, "read");
		if (!n)
			return NULL;
		c->done.bytes += (uint64_t)n;
		if (c->done.bytes > c->job.max_bytes)
			return layer_too_many_bytes(&c->job);
		if (c->job.done)
			*c->job.done = c->done.bytes;
		e = fd_write_all(out, c->chunk, (size_t)n);
		if (e)
			return e;
	}
}

static struct err *copy_file(struct copy *c, int from, int to, const char *name, bool *ret_left_out)
{
	autoclose in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	autoclose out = -1;

	if (in < 0)
		return err_sys(errno, "open");
	if (c->job.wanted && !c->job.wanted(in)) {
		*ret_left_out = true;
		return NULL;
	}
	out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return err_sys(errno, "create");
	return copy_bytes(c, in, out);
}

static struct err *copy_link(int from, int to, const char *name)
{
	char target[4097];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0)
		return err_sys(errno, "read link");
	target[n] = '\0';
	return symlinkat(target, to, name) < 0 ? err_sys(errno, "make link") : NULL;
}

static struct err *copy_sub_dir(struct copy *c, int from, int to, const char *name, unsigned depth)
{
	autoclose in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC),
		  out = -1;

	if (in < 0)
		return err_sys(errno, "open");
	if (mkdirat(to, name, 0700) < 0)
		return err_sys(errno, "make directory");
	out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return out < 0 ? err_sys(errno, "open copy") : copy_dir(c, in, out, depth + 1);
}

static struct err *copy_attributes(int to, const char *name, const struct stat *st)
{
	const struct timespec t[2] = { st->st_atim, st->st_mtim };

	if (fchownat(to, name, layer_owner(st->st_uid), layer_owner(st->st_gid),
		     AT_SYMLINK_NOFOLLOW) < 0 ||
	    (!S_ISLNK(st->st_mode) && fchmodat(to, name, st->st_mode & 07777, 0) < 0))
		return err_sys(errno, "set owner and mode");
	(void)utimensat(to, name, t, AT_SYMLINK_NOFOLLOW);
	return NULL;
}

/* The place of another file system stays as an empty directory. */
static struct err *copy_mount_point(int to, const char *name, mode_t mode)
{
	return S_ISDIR(mode) && mkdirat(to, name, 0755) < 0 ? err_sys(errno, "make directory")
							    : NULL;
}

static struct err *count_entry(struct copy *c, unsigned depth)
{
	if (++c->done.entries > c->job.max_entries)
		return layer_too_many_entries(&c->job);
	if (depth > DEPTH_MAX)
		return err_new(ERR_EXHAUSTED, "directory has more than %d levels", DEPTH_MAX);
	return NULL;
}

static struct err *copy_entry(struct copy *c, int from, int to, const char *name, unsigned depth)
{
	bool left_out = false;
	struct stat st;
	struct err *e;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(errno, "stat");
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode))
		return NULL;
	if (c->job.public_only && !(st.st_mode & S_IROTH))
		return NULL;
	if (st.st_dev != c->dev)
		return copy_mount_point(to, name, st.st_mode);
	e = count_entry(c, depth);
	if (e)
		return e;
	if (S_ISREG(st.st_mode))
		e = copy_file(c, from, to, name, &left_out);
	else if (S_ISLNK(st.st_mode))
		e = copy_link(from, to, name);
	else
		e = copy_sub_dir(c, from, to, name, depth);
	return e || left_out ? e : copy_attributes(to, name, &st);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static struct err *copy_dir(struct copy *c, int from, int to, unsigned depth)
{
	struct dirent **list = NULL;
	int n = scandirat(from, ".", &list, NULL, by_name);
	struct err *e = n < 0 ? err_sys(errno, "list directory") : NULL;

	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;

		if (!e && !str_eq(name, ".") && !str_eq(name, ".."))
			e = err_wrap(copy_entry(c, from, to, name, depth), "copy %s", name);
		free(list[i]);
	}
	free(list);
	return e;
}

struct err *layer_copy_dir(int from, int root, const struct layer_job *job, struct layer_done *ret)
{
	struct copy c = { .job = layer_job_of(job) };
	autofree char *chunk = xmalloc(CHUNK);
	struct stat st;
	struct err *e;

	c.chunk = chunk;
	if (fstat(from, &st) < 0)
		return err_sys(errno, "stat the directory");
	c.dev = st.st_dev;
	e = copy_dir(&c, from, root, 0);
	if (e)
		return e;
	*ret = c.done;
	return NULL;
}
