/* SPDX-License-Identifier: Apache-2.0 */
#include "node/volume/payload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "crypto/crypto.h"

/*
 * How a version replaces another. The digest of what was written last is kept in a file beside the
 * volume and not in a name inside it: from a digest, a user of the sandbox who may not read a file
 * could guess what is in it.
 */
static const char data_link[] = "..data", next_link[] = "..data_next";

void payload_done(struct payload *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->files[i].path);
		free(p->files[i].data);
	}
	free(p->files);
	*p = (struct payload){ 0 };
}

/* Relative, without an element "..", and not under a name that the layout needs for itself. */
static bool stays_inside(const char *path)
{
	struct span rest = SPAN(path);

	if (!*path || *path == '/' || str_starts(path, ".."))
		return false;
	while (rest.p)
		if (span_eq(span_cut(rest, '/', &rest), ".."))
			return false;
	return true;
}

struct err *payload_add(struct payload *p, const char *path, mode_t mode, const void *data,
			size_t len)
{
	struct payload_file *f;

	if (!stays_inside(path))
		return err_new(ERR_INVALID, "path \"%s\" does not stay inside the volume", path);
	if (p->n == PAYLOAD_FILES_MAX)
		return err_new(ERR_UNAVAILABLE, "volume has more than %d files", PAYLOAD_FILES_MAX);
	if (len > PAYLOAD_BYTES_MAX - p->bytes)
		return err_new(ERR_UNAVAILABLE, "volume has more than %d bytes", PAYLOAD_BYTES_MAX);
	p->files = xrealloc(p->files, (p->n + 1) * sizeof(*f));
	f = &p->files[p->n++];
	*f = (struct payload_file){
		.path = xstrdup(path), .mode = mode & 0777, .data = xmemdup(data, len), .len = len
	};
	p->bytes += len;
	return NULL;
}

void payload_own(struct payload *p, uid_t uid)
{
	p->files[p->n - 1].uid = uid;
}

void payload_share(struct payload *p, gid_t gid)
{
	for (size_t i = 0; i < p->n; i++) {
		p->files[i].gid = gid;
		p->files[i].mode |= 0440;
	}
}

/* Writing one version */

/* The directories of a path, open to everybody who may look into the volume. */
static struct err *make_parents(int at, const char *path)
{
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		autofree char *dir = xstrndup(path, (size_t)(slash - path));

		if ((mkdirat(at, dir, 0755) < 0 && errno != EEXIST) ||
		    fchmodat(at, dir, 0755, 0) < 0)
			return err_sys(errno, "create %s", dir);
	}
	return NULL;
}

static struct err *write_file(int at, const struct payload_file *f)
{
	struct err *e = make_parents(at, f->path);
	autoclose fd = -1;

	if (e)
		return e;
	fd = openat(at, f->path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || ((f->uid || f->gid) && fchown(fd, f->uid, f->gid) < 0) ||
	    fchmod(fd, f->mode) < 0)
		return err_sys(errno, "write %s", f->path);
	return fd_write_all(fd, f->data, f->len);
}

static struct err *write_version(const struct payload *p, int dir, const char *name)
{
	struct err *e = file_remove_tree(dir, name); /* of a write that did not end */
	autoclose at = -1;

	if (e)
		return e;
	if (mkdirat(dir, name, 0755) < 0 || fchmodat(dir, name, 0755, 0) < 0)
		return err_sys(errno, "create %s", name);
	at = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (at < 0)
		return err_sys(errno, "open %s", name);
	for (size_t i = 0; i < p->n && !e; i++)
		e = write_file(at, &p->files[i]);
	return e;
}

/* Links */

static bool points_to(int dir, const char *name, const char *to)
{
	char text[NAME_MAX + 16];
	ssize_t n = readlinkat(dir, name, text, sizeof(text) - 1);

	if (n < 0)
		return false;
	text[n] = 0;
	return str_eq(text, to);
}

/* In one step, whatever has the name. A directory that an earlier release wrote is removed first.
 */
static struct err *put_link(int dir, const char *name, const char *to)
{
	if (points_to(dir, name, to))
		return NULL;
	if (unlinkat(dir, next_link, 0) < 0 && errno != ENOENT)
		return err_sys(errno, "remove %s", next_link);
	if (symlinkat(to, dir, next_link) < 0)
		return err_sys(errno, "link %s to %s", name, to);
	if (renameat(dir, next_link, dir, name) < 0) {
		struct err *e = errno == EISDIR ? file_remove_tree(dir, name)
						: err_sys(errno, "rename to %s", name);

		if (e)
			return e;
		if (renameat(dir, next_link, dir, name) < 0)
			return err_sys(errno, "rename to %s", name);
	}
	return NULL;
}

static struct err *put_names(const struct payload *p, int dir, struct map *names)
{
	for (size_t i = 0; i < p->n; i++) {
		const char *path = p->files[i].path;
		autofree char *name = xstrndup(path, strcspn(path, "/"));
		autofree char *to = xasprintf("%s/%s", data_link, name);
		struct err *e = map_has(names, name) ? NULL : put_link(dir, name, to);

		if (e)
			return e;
		map_put(names, name, names);
	}
	return NULL;
}

/* Removes names that have no file any more, and versions but the present and the last. */
static struct err *sweep(int at, const struct map *names, unsigned version)
{
	autofree char *now = xasprintf("..%u", version), *last = xasprintf("..%u", version - 1);
	int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct err *e = d ? NULL : err_sys(errno, "open a volume");
	struct dirent *de;

	if (!d && fd >= 0)
		(void)close(fd);
	while (!e && (de = readdir(d))) {
		const char *name = de->d_name;
		bool keep = str_eq(name, ".") || str_eq(name, "..") || str_eq(name, data_link) ||
			    str_eq(name, now) || str_eq(name, last) || map_has(names, name);

		if (!keep)
			e = file_remove_tree(at, name);
	}
	if (d)
		(void)closedir(d);
	return e;
}

/* The whole */

static void sum_text(const struct payload *p, char ret[DIGEST_TEXT_LEN])
{
	autoptr(sha256) s = sha256_new();

	for (size_t i = 0; i < p->n; i++) {
		const struct payload_file *f = &p->files[i];
		autofree char *head = xasprintf("%zu %s %o %zu\n", strlen(f->path), f->path,
						(unsigned)f->mode, f->len);

		autofree char *owner =
			f->uid || f->gid ? xasprintf("%u:%u\n", f->uid, f->gid) : NULL;

		sha256_add(s, head, strlen(head));
		if (owner)
			sha256_add(s, owner, strlen(owner));
		sha256_add(s, f->data, f->len);
	}
	sha256_end_text(s, ret);
}

static bool is_written(const char *sum, const char *text)
{
	autofree char *was = NULL;

	err_free(file_read(AT_FDCWD, sum, DIGEST_TEXT_LEN, &was, NULL));
	return str_eq(was, text);
}

/* 0: there is none yet. */
static unsigned present_version(int dir)
{
	char text[32];
	ssize_t n = readlinkat(dir, data_link, text, sizeof(text) - 1);
	unsigned version = 0;

	if (n < 0)
		return 0;
	text[n] = 0;
	return sscanf(text, "..%u", &version) == 1 ? version : 0;
}

/* The state files and sockets of all Pods need some of this memory too. And a sandbox that keeps
 * old versions open keeps theirs: updates stop long before the first version of a new Pod does. */
static struct err *check_room(int dir, size_t bytes, bool update)
{
	struct statvfs st;
	unsigned long long room, total;

	if (fstatvfs(dir, &st) < 0)
		return err_sys(errno, "look at the memory for volumes");
	room = (unsigned long long)st.f_bavail * st.f_frsize;
	total = (unsigned long long)st.f_blocks * st.f_frsize;
	if (total && room < total / (update ? 4 : 8) + bytes)
		return err_new(ERR_EXHAUSTED, "less than %s of the memory for volumes is free",
			       update ? "a quarter" : "an eighth");
	return NULL;
}

struct err *payload_write(const struct payload *p, const char *dir, const char *sum)
{
	autoclose at = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	autoptr(map) names = map_new(NULL);
	char text[DIGEST_TEXT_LEN];
	unsigned version;
	autofree char *name = NULL;
	struct err *e = NULL;

	if (at < 0)
		return err_sys(errno, "open %s", dir);
	sum_text(p, text);
	version = present_version(at);
	if (version && is_written(sum, text))
		return NULL;
	e = check_room(at, p->bytes, version);
	name = xasprintf("..%u", ++version);
	if (!e)
		e = write_version(p, at, name);
	if (!e)
		e = put_link(at, data_link, name);
	if (!e)
		e = put_names(p, at, names);
	if (!e)
		e = sweep(at, names, version);
	return e ? err_wrap(e, "write %s", dir)
		 : file_write_atomic(AT_FDCWD, sum, text, strlen(text), 0600);
}
