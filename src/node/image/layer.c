/* SPDX-License-Identifier: Apache-2.0 */
#include <archive.h>
#include <archive_entry.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/host/numbers.h"
#include "node/image/image_priv.h"

/*
 * Layers: libarchive reads, we write. Every name is opened with RESOLVE_IN_ROOT, so a link
 * that an earlier entry planted leads to a place below the root at most; devices are refused, hard
 * links may only name what is inside, and the number of entries and bytes has a limit.
 *
 * Owners are those of the archive: on disk an image has the ids that a sandbox sees. Of extended
 * attributes, those of users are kept. File capabilities and labels are left out: nothing in a
 * sandbox gains privileges by running a file.
 *
 * A layer says with ".wh.x" that x of the layers below is gone, and with ".wh..wh..opq" that all in
 * the directory is. On disk these are what an overlay takes for that.
 */
enum {
	PATH_LEN_MAX = 4096,
	DEPTH_MAX = 256,
	XATTR_LEN_MAX = 64 * 1024,
};
static const uint64_t default_bytes = 64ULL << 30;
static const uint64_t default_entries = 4000000;
static const size_t dirs_size_max = 64 << 20;

/* A directory gets its time when nothing is put into it any more. */
struct dir_time {
	int64_t mtime;
	char path[];
};

struct unpack {
	int root;
	struct layer_job job;
	struct layer_done done;
	struct tar *tar;
	struct map *dirs; /* path → struct dir_time, in the order of their last entries */
	size_t dirs_size;
};

/* The entry's name without leading "./" and "/"; NULL: it is the root itself. ERR_INVALID for "..".
 */
static struct err *clean_name(const char *name, const char **ret)
{
	struct span rest;

	if (!name || strlen(name) >= PATH_LEN_MAX || !*name)
		return err_new(ERR_INVALID,
			       "archive has an entry whose name is empty or longer than %d "
			       "bytes",
			       PATH_LEN_MAX - 1);
	while (str_starts(name, "./") || *name == '/')
		name += *name == '/' ? 1 : 2;
	if (!*name || str_eq(name, ".")) {
		*ret = NULL;
		return NULL;
	}
	rest = SPAN(name);
	for (unsigned depth = 0; rest.p; depth++) {
		struct span part = span_cut(rest, '/', &rest);

		if (span_eq(part, ".."))
			return err_new(ERR_INVALID, "entry %s has \"..\" in its name", name);
		if (depth > DEPTH_MAX)
			return err_new(ERR_INVALID, "entry %s has more than %d levels", name,
				       DEPTH_MAX);
	}
	*ret = name;
	return NULL;
}

struct err *layer_need_dir(int root, const char *path, int *ret)
{
	autofree char *up_path = NULL;
	autoclose up = -1;
	struct err *e = file_open_in_root(root, path, O_RDONLY | O_DIRECTORY, 0, ret);
	const char *slash;

	if (!err_is(e, ERR_NOT_FOUND))
		return e;
	err_free(e);
	slash = strrchr(path, '/');
	up_path = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
	e = layer_need_dir(root, up_path, &up);
	if (e)
		return e;
	if (mkdirat(up, slash ? slash + 1 : path, 0755) < 0)
		return err_sys(errno, "make directory %s", path);
	e = file_open_in_root(root, path, O_RDONLY | O_DIRECTORY, 0, ret);
	if (!e && fchmod(*ret, 0755) < 0) /* the umask has no say in it */
		e = err_sys(errno, "change the mode of %s", path);
	return e;
}

/* Where an entry goes: its directory and its last name (in path, which is the caller's). */
struct place {
	char path[PATH_LEN_MAX];
	const char *last;
	int dir;
};

static struct err *find_place(struct unpack *u, const char *name, struct place *ret)
{
	char *slash;

	(void)snprintf(ret->path, sizeof(ret->path), "%s", name);
	for (size_t n = strlen(ret->path); n > 1 && ret->path[n - 1] == '/'; n--)
		ret->path[n - 1] = '\0';
	slash = strrchr(ret->path, '/');
	ret->last = slash ? slash + 1 : ret->path;
	if (slash)
		*slash = '\0';
	ret->dir = -1;
	return layer_need_dir(u->root, slash ? ret->path : ".", &ret->dir);
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

/* What an earlier entry left at this name makes way, but a directory stays for a directory.
 * *ret_opaque: it hid what is below, and so must what comes now. */
static struct err *make_way(const struct place *at, bool for_dir, bool *ret_opaque)
{
	struct stat st;

	*ret_opaque = false;
	if (fstatat(at->dir, at->last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return NULL;
	*ret_opaque = is_whiteout(&st);
	if (S_ISDIR(st.st_mode))
		return for_dir ? NULL : file_remove_tree(at->dir, at->last);
	if (unlinkat(at->dir, at->last, 0) < 0)
		return err_sys(errno, "replace %s", at->last);
	return NULL;
}

static struct err *count_bytes(struct unpack *u, uint64_t n)
{
	u->done.bytes += n;
	if (u->job.done)
		*u->job.done = u->done.bytes;
	return u->done.bytes > u->job.max_bytes ? layer_too_many_bytes(&u->job) : NULL;
}

static struct err *copy_data(struct unpack *u, int fd)
{
	for (;;) {
		const void *p;
		size_t len;
		int64_t off;
		struct err *e = tar_data(u->tar, &p, &len, &off);

		if (!e && p)
			e = count_bytes(u, len);
		if (e || !p)
			return e;
		while (len) {
			ssize_t n = pwrite(fd, p, len, off);

			if (n <= 0)
				return err_sys(errno, "write file data");
			p = (const char *)p + n;
			off += n;
			len -= (size_t)n;
		}
	}
}

static struct err *write_file(struct unpack *u, struct archive_entry *en, const struct place *at)
{
	autoclose fd = openat(at->dir, at->last,
			      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int64_t size = archive_entry_size_is_set(en) ? archive_entry_size(en) : -1;
	uint64_t before = u->done.bytes, data;
	struct err *e;

	if (fd < 0)
		return err_sys(errno, "create file");
	if (size > 0 && (uint64_t)size > u->job.max_bytes - before)
		return layer_too_many_bytes(&u->job);
	e = copy_data(u, fd);
	data = u->done.bytes - before;
	if (!e && size > 0 && (uint64_t)size > data)
		e = count_bytes(u, (uint64_t)size - data); /* holes count as well */
	if (e)
		return e;
	if (size >= 0 && ftruncate(fd, size) < 0)
		return err_sys(errno, "set file size"); /* a hole at the end */
	return NULL;
}

/* Both ends are found below the root, and neither is followed if it is a link. */
static struct err *write_hardlink(struct unpack *u, const char *target, const struct place *at)
{
	struct place from;
	const char *name;
	struct err *e = clean_name(target, &name);
	int r;

	if (e || !name)
		return e ? e : err_new(ERR_INVALID, "hard link to the root of the archive");
	e = find_place(u, name, &from);
	if (e)
		return e;
	r = linkat(from.dir, from.last, at->dir, at->last, 0);
	(void)close(from.dir);
	if (r < 0 && errno == ENOENT)
		return err_new(ERR_INVALID, "hard link to %s, which no entry before it has",
			       target);
	return r < 0 ? err_sys(errno, "link to %s", target) : NULL;
}

uint32_t layer_owner(int64_t id)
{
	return id >= 0 && id < ID_RANGE ? (uint32_t)id : ID_NOBODY;
}

static struct err *set_xattr(const struct place *at, const char *name, const void *value,
			     size_t len)
{
	autofree char *path = xasprintf("/proc/self/fd/%d/%s", at->dir, at->last);

	if (str_starts(name, "trusted.overlay.") || str_starts(name, "user.overlay."))
		return err_new(ERR_INVALID, "extended attribute %s is not allowed in an image",
			       name);
	if (!str_starts(name, "user."))
		return NULL;
	if (len > XATTR_LEN_MAX)
		return err_new(ERR_INVALID, "extended attribute %s has more than %d bytes", name,
			       XATTR_LEN_MAX);
	if (lsetxattr(path, name, value, len, 0) < 0 && errno != ENOTSUP)
		return err_sys(errno, "set extended attribute %s", name);
	return NULL;
}

static struct err *set_xattrs(struct archive_entry *en, const struct place *at)
{
	bool can = archive_entry_filetype(en) == AE_IFREG || archive_entry_filetype(en) == AE_IFDIR;
	const char *name;
	const void *value;
	size_t len;
	struct err *e = NULL;

	if (archive_entry_xattr_reset(en) <= 0 || !can)
		return NULL;
	while (!e && archive_entry_xattr_next(en, &name, &value, &len) == ARCHIVE_OK)
		e = set_xattr(at, str_or(name, ""), value, len);
	return e;
}

static struct err *set_attributes(struct archive_entry *en, const struct place *at)
{
	struct timespec t[2] = { { .tv_nsec = UTIME_NOW } };
	bool link = archive_entry_filetype(en) == AE_IFLNK;

	t[1] = (struct timespec){ .tv_sec = archive_entry_mtime(en) };
	if (fchownat(at->dir, at->last, layer_owner(archive_entry_uid(en)),
		     layer_owner(archive_entry_gid(en)), AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(errno, "change owner");
	/* After the owner, which takes away set-id bits. */
	if (!link && fchmodat(at->dir, at->last, archive_entry_perm(en) & 07777, 0) < 0)
		return err_sys(errno, "change mode");
	(void)utimensat(at->dir, at->last, t, AT_SYMLINK_NOFOLLOW);
	return set_xattrs(en, at);
}

/* Once each, however often the archive has it. What is beyond the limit has the time of now: that
 * is only for the looks of it, and no reason to refuse an image. */
static void remember_dir(struct unpack *u, const struct place *at, int64_t mtime)
{
	enum {
		IN_MAP = 64
	}; /* about what an entry of a map takes */
	bool below = at->last != at->path;
	autofree char *path =
		xasprintf("%s%s%s", below ? at->path : "", below ? "/" : "", at->last);
	size_t len = strlen(path) + 1, size = sizeof(struct dir_time) + len;
	struct dir_time *d = map_take(u->dirs, path);

	if (!d) {
		if (u->dirs_size + size + IN_MAP > dirs_size_max)
			return;
		u->dirs_size += size + IN_MAP;
		d = xmalloc(size);
		memcpy(d->path, path, len);
	}
	d->mtime = mtime;
	map_put(u->dirs, d->path, d);
}

/* Only for the looks of it: a directory that has gone in the meantime is passed over. */
static void set_dir_times(struct unpack *u)
{
	map_each(it, u->dirs) {
		const struct dir_time *d = it.value;
		struct timespec t[2] = { { .tv_nsec = UTIME_NOW }, { .tv_sec = d->mtime } };
		autoclose fd = -1;

		err_free(file_open_in_root(u->root, d->path, O_RDONLY | O_DIRECTORY, 0, &fd));
		if (fd >= 0)
			(void)futimens(fd, t);
	}
}

static struct err *set_opaque(int dir)
{
	return fsetxattr(dir, LAYER_OPAQUE, "y", 1, 0) < 0 ? err_sys(errno, "make opaque") : NULL;
}

static struct err *write_dir(struct unpack *u, struct archive_entry *en, const struct place *at,
			     bool opaque)
{
	autoclose fd = -1;

	if (mkdirat(at->dir, at->last, 0700) < 0 && errno != EEXIST)
		return err_sys(errno, "make directory");
	remember_dir(u, at, archive_entry_mtime(en));
	if (!opaque)
		return NULL;
	fd = openat(at->dir, at->last, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(errno, "open directory") : set_opaque(fd);
}

/* Packages unpack as dpkg does it: where a link leads to a directory, the link stays. */
static bool stays_link(const struct unpack *u, struct archive_entry *en, const struct place *at)
{
	autoclose fd = -1;
	struct stat st;

	if (!u->job.keep_links || archive_entry_filetype(en) != AE_IFDIR)
		return false;
	if (fstatat(at->dir, at->last, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISLNK(st.st_mode))
		return false;
	err_free(file_open_in_root(u->root, archive_entry_pathname(en), O_RDONLY | O_DIRECTORY, 0,
				   &fd));
	return fd >= 0;
}

static struct err *write_entry_at(struct unpack *u, struct archive_entry *en,
				  const struct place *at)
{
	const char *hard = archive_entry_hardlink(en);
	bool opaque;
	struct err *e;

	assert(at->dir >= 0);
	if (!hard && stays_link(u, en, at))
		return NULL;
	e = make_way(at, archive_entry_filetype(en) == AE_IFDIR && !hard, &opaque);
	if (e)
		return e;
	if (hard)
		return write_hardlink(u, hard, at);
	switch (archive_entry_filetype(en)) {
	case AE_IFDIR:
		e = write_dir(u, en, at, opaque);
		break;
	case AE_IFREG:
		e = write_file(u, en, at);
		break;
	case AE_IFLNK:
		if (symlinkat(str_or(archive_entry_symlink(en), "."), at->dir, at->last) < 0)
			e = err_sys(errno, "make symbolic link");
		break;
	case AE_IFIFO:
		if (mkfifoat(at->dir, at->last, 0600) < 0)
			e = err_sys(errno, "make fifo");
		break;
	default:
		return err_new(ERR_INVALID, "devices and sockets are not allowed in an image");
	}
	return e ? e : set_attributes(en, at);
}

/* The layer's own file of that name stays, a directory without what is below it: a whiteout is
 * about the layers below, wherever it stands in the archive. */
static struct err *hide(const struct place *at, const char *name)
{
	autoclose fd = -1;
	struct stat st;

	if (str_empty(name) || str_eq(name, ".") || str_eq(name, ".."))
		return err_new(ERR_INVALID, "whiteout without a name");
	if (fstatat(at->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (mknodat(at->dir, name, S_IFCHR, makedev(0, 0)) < 0)
			return err_sys(errno, "make whiteout");
		return NULL;
	}
	if (!S_ISDIR(st.st_mode))
		return NULL;
	fd = openat(at->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(errno, "open directory") : set_opaque(fd);
}

static struct err *write_whiteout(struct unpack *u, const struct place *at)
{
	if (!u->job.whiteouts)
		return err_new(ERR_UNSUPPORTED,
			       "it is a whiteout: this is one layer of an image, not a root file "
			       "system; import the whole image");
	if (str_eq(at->last, ".wh..wh..opq"))
		return set_opaque(at->dir);
	if (str_starts(at->last, ".wh..wh."))
		return NULL; /* what an old storage driver kept for itself */
	return hide(at, at->last + strlen(".wh."));
}

static struct err *write_entry(struct unpack *u, struct archive_entry *en)
{
	struct place at;
	const char *name;
	struct err *e = clean_name(archive_entry_pathname(en), &name);

	if (e || !name)
		return e;
	if (++u->done.entries > u->job.max_entries)
		return layer_too_many_entries(&u->job);
	e = find_place(u, name, &at);
	if (!e) {
		e = str_starts(at.last, ".wh.") ? write_whiteout(u, &at)
						: write_entry_at(u, en, &at);
		(void)close(at.dir);
	}
	return err_wrap(e, "unpack %s", name);
}

static struct err *write_entries(struct unpack *u)
{
	for (;;) {
		struct archive_entry *en;
		struct err *e = tar_next(u->tar, &en);

		if (!e && en)
			e = write_entry(u, en);
		if (e || !en)
			return e;
	}
}

struct layer_job layer_job_of(const struct layer_job *job)
{
	struct layer_job j = job ? *job : (struct layer_job){ 0 };

	j.max_bytes = j.max_bytes ? j.max_bytes : default_bytes;
	j.max_entries = j.max_entries ? j.max_entries : default_entries;
	return j;
}

struct err *layer_too_many_bytes(const struct layer_job *job)
{
	return err_new(ERR_EXHAUSTED, "root file system has more than %llu bytes",
		       (unsigned long long)job->max_bytes);
}

struct err *layer_too_many_entries(const struct layer_job *job)
{
	return err_new(ERR_EXHAUSTED, "root file system has more than %llu entries",
		       (unsigned long long)job->max_entries);
}

struct err *layer_unpack(const struct tar_from *from, int root, const struct layer_job *job,
			 struct layer_done *ret)
{
	struct unpack u = { .root = root, .job = layer_job_of(job) };
	struct tar_from limited = *from;
	autoptr(map) dirs = map_new_borrowing(free);
	autoptr(tar) tar = NULL;
	struct err *e;

	/* Headers come on top of the data. */
	limited.max = 2 * u.job.max_bytes + 4096 * u.job.max_entries;
	e = tar_open(&limited, &tar);
	u.tar = tar;
	u.dirs = dirs;
	if (!e)
		e = write_entries(&u);
	if (!e) {
		set_dir_times(&u);
		e = tar_end(tar, &u.done);
	}
	if (e)
		return e;
	*ret = u.done;
	return NULL;
}
