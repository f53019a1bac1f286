/* SPDX-License-Identifier: Apache-2.0 */
#include <archive.h>
#include <archive_entry.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/host/numbers.h"
#include "node/image/image_priv.h"

/*
 * Layers: libarchive reads, we write. Every name is opened with RESOLVE_IN_ROOT, so a link
 * that an earlier entry planted leads to a place below the root at most; devices are refused, hard
 * links may only name what is inside, and the number of entries and bytes has a limit.
 *
 * Owners are those of the archive: on disk an image has the ids that a sandbox sees.
 */
enum {
	CHUNK = 64 * 1024,
	PATH_LEN_MAX = 4096,
	DEPTH_MAX = 256,
};
static const uint64_t default_bytes = 64ULL << 30;
static const uint64_t default_entries = 4000000;

struct reader {
	int fd;
	const char *bytes; /* instead of fd, for tests */
	size_t len;
	struct sha256 *hash;
	char chunk[CHUNK];
};

struct unpack {
	int root;
	struct layer_job job;
	struct layer_done done;
};

static la_ssize_t read_some(struct archive *a, void *arg, const void **ret)
{
	struct reader *r = arg;
	ssize_t n;

	if (r->bytes) {
		n = (ssize_t)MIN(r->len, (size_t)CHUNK);
		*ret = r->bytes;
		r->bytes += n;
		r->len -= (size_t)n;
	} else {
		do
			n = read(r->fd, r->chunk, CHUNK);
		while (n < 0 && errno == EINTR);
		*ret = r->chunk;
	}
	if (n < 0) {
		archive_set_error(a, errno, "%s", "read");
		return -1;
	}
	sha256_add(r->hash, *ret, (size_t)n);
	return n;
}

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

/* A directory below the root, made with its parents where it is missing. */
static struct err *need_dir(int root, const char *path, int *ret)
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
	e = need_dir(root, up_path, &up);
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
	return need_dir(u->root, slash ? ret->path : ".", &ret->dir);
}

/* What an earlier entry left at this name makes way, but a directory stays for a directory. */
static struct err *make_way(const struct place *at, bool for_dir)
{
	struct stat st;

	if (fstatat(at->dir, at->last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return NULL;
	if (S_ISDIR(st.st_mode))
		return for_dir ? NULL : file_remove_tree(at->dir, at->last);
	if (unlinkat(at->dir, at->last, 0) < 0)
		return err_sys(errno, "replace %s", at->last);
	return NULL;
}

static struct err *count_bytes(struct unpack *u, uint64_t n)
{
	u->done.bytes += n;
	return u->done.bytes > u->job.max_bytes ? layer_too_many_bytes(&u->job) : NULL;
}

static struct err *copy_data(struct unpack *u, struct archive *a, int fd)
{
	for (;;) {
		const void *p;
		size_t len;
		la_int64_t off;
		int r = archive_read_data_block(a, &p, &len, &off);
		struct err *e;

		if (r == ARCHIVE_EOF)
			return NULL;
		if (r < ARCHIVE_WARN)
			return err_new(ERR_MALFORMED, "read the data of a file: %s",
				       str_or(archive_error_string(a), "unknown"));
		e = count_bytes(u, len);
		if (e)
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

static struct err *write_file(struct unpack *u, struct archive *a, struct archive_entry *en,
			      const struct place *at)
{
	autoclose fd = openat(at->dir, at->last,
			      O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct err *e;

	if (fd < 0)
		return err_sys(errno, "create file");
	e = copy_data(u, a, fd);
	if (e)
		return e;
	if (archive_entry_size_is_set(en) && ftruncate(fd, archive_entry_size(en)) < 0)
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
	return r < 0 ? err_sys(errno, "link to %s", target) : NULL;
}

uint32_t layer_owner(int64_t id)
{
	return id >= 0 && id < ID_RANGE ? (uint32_t)id : ID_NOBODY;
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
	return NULL;
}

static struct err *write_entry_at(struct unpack *u, struct archive *a, struct archive_entry *en,
				  const struct place *at)
{
	const char *hard = archive_entry_hardlink(en);
	struct err *e = make_way(at, archive_entry_filetype(en) == AE_IFDIR && !hard);

	assert(at->dir >= 0);
	if (e)
		return e;
	if (hard)
		return write_hardlink(u, hard, at);
	switch (archive_entry_filetype(en)) {
	case AE_IFDIR:
		if (mkdirat(at->dir, at->last, 0700) < 0 && errno != EEXIST)
			e = err_sys(errno, "make directory");
		break;
	case AE_IFREG:
		e = write_file(u, a, en, at);
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

static struct err *write_entry(struct unpack *u, struct archive *a, struct archive_entry *en)
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
		e = write_entry_at(u, a, en, &at);
		(void)close(at.dir);
	}
	if (u->job.progress && u->done.entries % 1024 == 0)
		u->job.progress(u->job.arg, "unpacking", u->done.bytes);
	return err_wrap(e, "unpack %s", name);
}

static struct err *write_entries(struct unpack *u, struct archive *a)
{
	struct archive_entry *en;
	struct err *e = NULL;

	while (!e) {
		int r = archive_read_next_header(a, &en);

		if (r == ARCHIVE_EOF)
			return NULL;
		if (r < ARCHIVE_WARN)
			return err_new(ERR_MALFORMED, "read archive: %s",
				       str_or(archive_error_string(a), "unknown"));
		e = write_entry(u, a, en);
	}
	return e;
}

static struct archive *reader_archive(void)
{
	struct archive *a = archive_read_new();

	(void)archive_read_support_format_tar(a);
	(void)archive_read_support_filter_gzip(a);
	(void)archive_read_support_filter_xz(a);
	(void)archive_read_support_filter_zstd(a);
	(void)archive_read_support_filter_bzip2(a);
	return a;
}

static struct err *unpack(struct reader *r, struct unpack *u, struct layer_done *ret)
{
	struct archive *a = reader_archive();
	autoptr(sha256) hash = sha256_new();
	const void *rest;
	struct err *e = NULL;

	r->hash = hash;
	if (archive_read_open(a, r, NULL, read_some, NULL) != ARCHIVE_OK)
		e = err_new(ERR_MALFORMED, "open archive: %s",
			    str_or(archive_error_string(a), "unknown"));
	if (!e)
		e = write_entries(u, a);
	while (!e && read_some(a, r, &rest) > 0)
		; /* what follows the archive's end belongs to the digest */
	(void)archive_read_free(a);
	if (e)
		return e;
	sha256_end_text(r->hash, u->done.digest);
	*ret = u->done;
	return NULL;
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

struct err *layer_unpack(int fd, int root, const struct layer_job *job, struct layer_done *ret)
{
	autofree struct reader *r = xnew(struct reader);
	struct unpack u = { .root = root, .job = layer_job_of(job) };

	r->fd = fd;
	return unpack(r, &u, ret);
}

struct err *layer_unpack_bytes(const void *p, size_t len, int root, const struct layer_job *job,
			       struct layer_done *ret)
{
	autofree struct reader *r = xnew(struct reader);
	struct unpack u = { .root = root, .job = layer_job_of(job) };

	r->bytes = len ? p : "";
	r->len = len;
	return unpack(r, &u, ret);
}
