/* SPDX-License-Identifier: Apache-2.0 */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "node/image/image_priv.h"

/*
 * A layer's directory as a tar: entries in the order of their names, with nothing in them that
 * differs from one machine to the next, so that a tree always becomes the same bytes. Unpacked, it
 * is the same tree again.
 */
enum {
	CHUNK = 256 * 1024,
	DEPTH_MAX = 256,
	NAMES_LEN_MAX = 64 * 1024, /* of a file's extended attributes */
};

struct pack {
	struct archive *out;
	const struct pack_sink *sink;
	struct err *failed; /* of the sink */
	struct map *links;  /* "dev:ino" → the first path of a file that has several */
	char *chunk;
};

static la_ssize_t on_write(struct archive *a, void *arg, const void *p, size_t len)
{
	struct pack *k = arg;

	if (!k->failed)
		k->failed = k->sink->write(k->sink->arg, p, len);
	if (!k->failed)
		return (la_ssize_t)len;
	archive_set_error(a, EIO, "%s", err_text(k->failed));
	return -1;
}

static struct err *out_failed(struct pack *k)
{
	if (k->failed)
		return take(k->failed);
	return err_new(ERR_SYS, "write archive: %s",
		       str_or(archive_error_string(k->out), "unknown"));
}

static struct err *put_header(struct pack *k, struct archive_entry *en)
{
	return archive_write_header(k->out, en) < ARCHIVE_WARN ? out_failed(k) : NULL;
}

static struct err *put_data(struct pack *k, int fd)
{
	for (;;) {
		ssize_t n = read(fd, k->chunk, CHUNK);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(errno, "read");
		if (!n)
			return NULL;
		if (archive_write_data(k->out, k->chunk, (size_t)n) != n)
			return out_failed(k);
	}
}

/* An empty file whose name says that something is hidden. */
static struct err *put_whiteout(struct pack *k, const char *dir, const char *name)
{
	autofree char *path = xasprintf("%s%s.wh.%s", dir, *dir ? "/" : "", name);
	struct archive_entry *en = archive_entry_new();
	struct err *e;

	archive_entry_set_pathname(en, path);
	archive_entry_set_filetype(en, AE_IFREG);
	archive_entry_set_perm(en, 0600);
	archive_entry_set_size(en, 0);
	archive_entry_set_mtime(en, 0, 0);
	e = put_header(k, en);
	archive_entry_free(en);
	return e;
}

static void add_xattr(int fd, struct archive_entry *en, const char *name)
{
	autofree char *value = xmalloc(NAMES_LEN_MAX);
	ssize_t n = fgetxattr(fd, name, value, NAMES_LEN_MAX);

	if (n >= 0)
		archive_entry_xattr_add_entry(en, name, value, (size_t)n);
}

static void add_xattrs(int fd, struct archive_entry *en)
{
	autofree char *names = xmalloc(NAMES_LEN_MAX);
	autofree const char **list = NULL;
	ssize_t len = flistxattr(fd, names, NAMES_LEN_MAX);
	size_t n = 0;

	for (const char *p = names; len > 0 && p < names + len; p += strlen(p) + 1)
		if (str_starts(p, "user.")) {
			list = xrealloc(list, (n + 1) * sizeof(*list));
			list[n++] = p;
		}
	if (n)
		str_sort(list, n);
	for (size_t i = n; i > 0; i--) /* libarchive puts the last one first */
		add_xattr(fd, en, list[i - 1]);
}

static struct archive_entry *entry_of(const char *path, const struct stat *st)
{
	struct archive_entry *en = archive_entry_new();

	archive_entry_set_pathname(en, path);
	archive_entry_set_mode(en, st->st_mode);
	archive_entry_set_uid(en, st->st_uid);
	archive_entry_set_gid(en, st->st_gid);
	archive_entry_set_mtime(en, st->st_mtim.tv_sec, 0);
	archive_entry_set_size(en, S_ISREG(st->st_mode) ? st->st_size : 0);
	return en;
}

/* The path under which the file is in the archive already; NULL: it is not. */
static const char *other_link(struct pack *k, const char *path, const struct stat *st)
{
	char key[64];
	const char *first;

	if (st->st_nlink < 2)
		return NULL;
	(void)snprintf(key, sizeof(key), "%llx:%llx", (unsigned long long)st->st_dev,
		       (unsigned long long)st->st_ino);
	first = map_get(k->links, key);
	if (!first)
		map_put(k->links, key, xstrdup(path));
	return first;
}

static struct err *put_file(struct pack *k, int dir, const char *name, struct archive_entry *en)
{
	autoclose fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct err *e;

	if (fd < 0)
		return err_sys(errno, "open");
	add_xattrs(fd, en);
	e = put_header(k, en);
	return e ? e : put_data(k, fd);
}

static struct err *put_symlink(struct pack *k, int dir, const char *name, struct archive_entry *en)
{
	char target[4097];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return err_sys(errno, "read link");
	target[n] = '\0';
	archive_entry_set_symlink(en, target);
	return put_header(k, en);
}

static struct err *put_tree(struct pack *k, int dir, const char *path, unsigned depth);

static struct err *put_dir(struct pack *k, int up, const char *name, struct archive_entry *en,
			   unsigned depth)
{
	autoclose dir = openat(up, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autofree char *path = xstrdup(archive_entry_pathname(en)); /* writing it appends a "/" */
	struct err *e;

	if (dir < 0)
		return err_sys(errno, "open");
	if (depth > DEPTH_MAX)
		return err_new(ERR_EXHAUSTED, "directory has more than %d levels", DEPTH_MAX);
	add_xattrs(dir, en);
	e = put_header(k, en);
	return e ? e : put_tree(k, dir, path, depth + 1);
}

static struct err *put_entry(struct pack *k, int dir, const char *name, struct archive_entry *en,
			     unsigned depth)
{
	const char *first = NULL;

	switch (archive_entry_filetype(en)) {
	case AE_IFDIR:
		return put_dir(k, dir, name, en, depth);
	case AE_IFLNK:
		return put_symlink(k, dir, name, en);
	case AE_IFREG:
		first = archive_entry_hardlink(en);
		return first ? put_header(k, en) : put_file(k, dir, name, en);
	case AE_IFIFO:
		return put_header(k, en);
	default:
		return NULL; /* sockets of a running system */
	}
}

static struct err *put_name(struct pack *k, int dir, const char *path, const char *name,
			    unsigned depth)
{
	autofree char *full = xasprintf("%s%s%s", path, *path ? "/" : "", name);
	struct archive_entry *en;
	const char *first;
	struct stat st;
	struct err *e;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(errno, "look at %s", full);
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0))
		return put_whiteout(k, path, name);
	en = entry_of(full, &st);
	first = S_ISREG(st.st_mode) ? other_link(k, full, &st) : NULL;
	if (first) {
		archive_entry_set_size(en, 0);
		archive_entry_set_hardlink(en, first);
	}
	e = put_entry(k, dir, name, en, depth);
	archive_entry_free(en);
	return err_wrap(e, "pack %s", full);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static struct err *put_tree(struct pack *k, int dir, const char *path, unsigned depth)
{
	struct dirent **list = NULL;
	int n = scandirat(dir, ".", &list, NULL, by_name);
	struct err *e = n < 0 ? err_sys(errno, "list directory %s", path) : NULL;

	if (!e && fgetxattr(dir, LAYER_OPAQUE, NULL, 0) > 0)
		e = put_whiteout(k, path, ".wh..opq");
	for (int i = 0; i < n; i++) {
		const char *name = list[i]->d_name;

		if (!e && !str_eq(name, ".") && !str_eq(name, ".."))
			e = put_name(k, dir, path, name, depth);
		free(list[i]);
	}
	free(list);
	return e;
}

static void free_text(void *text)
{
	free(text);
}

struct err *layer_pack(int root, const struct pack_sink *sink)
{
	autoptr(map) links = map_new(free_text);
	autofree char *chunk = xmalloc(CHUNK);
	struct pack k = { .sink = sink, .links = links, .chunk = chunk };
	struct tar_locale locale;
	struct err *e = NULL;

	tar_locale_enter(&locale);
	k.out = archive_write_new();
	(void)archive_write_set_format_pax_restricted(k.out);
	(void)archive_write_add_filter_none(k.out);
	(void)archive_write_set_bytes_in_last_block(k.out, 1);
	if (archive_write_open(k.out, &k, NULL, on_write, NULL) != ARCHIVE_OK)
		e = out_failed(&k);
	if (!e)
		e = put_tree(&k, root, "", 0);
	if (!e && archive_write_close(k.out) != ARCHIVE_OK)
		e = out_failed(&k);
	(void)archive_write_free(k.out);
	tar_locale_leave(&locale);
	err_free(k.failed);
	return e;
}

static struct err *add_to_digest(void *arg, const void *p, size_t len)
{
	sha256_add(arg, p, len);
	return NULL;
}

struct err *layer_diff_id(int root, char ret[DIGEST_TEXT_LEN])
{
	autoptr(sha256) hash = sha256_new();
	const struct pack_sink sink = { add_to_digest, hash };
	struct err *e = layer_pack(root, &sink);

	if (!e)
		sha256_end_text(hash, ret);
	return e;
}
