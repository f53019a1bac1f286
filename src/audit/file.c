/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/audit_priv.h"
#include "audit/chain.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"

/*
 * A file that is rotated: PATH becomes PATH.1, that PATH.2, and the oldest goes. Names are resolved
 * in the directory that was opened at the start. Whoever removed or moved the file finds a new one
 * with the next rotation, not before.
 *
 * Lines become links of the chain here, in the order in which they are written, and wait in out
 * until the file takes them: a line that was numbered is never numbered again. PATH.head has the
 * end of the chain as it was last on disk.
 */
enum {
	LINE_MAX_LEN = 1024 * 1024, /* of a line at the end of a file that is read */
	HEAD_MAX = 4096,
	OLD_MAX = 10000, /* numbers of files that are looked for */
	LINK_ROOM = 120, /* what a line gets in front of it */
	SIGN_ROOM = 320, /* the signature at the end of a file */
};

struct audit_file {
	int dir, fd; /* dir -1: standard output */
	char *name;
	uint64_t len, max_bytes;
	unsigned keep;
	struct chain chain;
	struct buf out;   /* numbered, and not written yet */
	bool needs_begin; /* the next line is the first of a file */
	bool records;     /* it has one: a file that is full of one line is not empty forever */
	bool unsynced;
};

static void numbered(const struct audit_file *f, unsigned n, char ret[NAME_MAX + 1])
{
	if (n)
		(void)snprintf(ret, NAME_MAX + 1, "%s.%u", f->name, n);
	else
		(void)snprintf(ret, NAME_MAX + 1, "%s", f->name);
}

static void head_name(const struct audit_file *f, char ret[NAME_MAX + 1])
{
	(void)snprintf(ret, NAME_MAX + 1, "%s.head", f->name);
}

static struct err *open_file(struct audit_file *f)
{
	struct stat st;

	f->fd = openat(f->dir, f->name, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (f->fd < 0)
		return err_sys(errno, "open %s", f->name);
	if (fstat(f->fd, &st) < 0)
		return err_sys(errno, "look at %s", f->name);
	if (!S_ISREG(st.st_mode))
		return err_new(ERR_INVALID, "%s is not a regular file", f->name);
	f->len = (uint64_t)st.st_size;
	return NULL;
}

static struct err *open_dir(struct audit_file *f, const char *path)
{
	const char *slash = strrchr(path, '/');
	autofree char *dir = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");

	f->name = xstrdup(slash ? slash + 1 : path);
	if (!*f->name || strlen(f->name) > NAME_MAX - 12)
		return err_new(ERR_INVALID, "its name must have 1 to %d bytes", NAME_MAX - 12);
	f->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return f->dir < 0 ? err_sys(errno, "open %s", dir) : NULL;
}

/* Where the chain stands */

static struct err *read_tail(int fd, uint64_t len, struct buf *ret)
{
	size_t want = MIN(len, (uint64_t)LINE_MAX_LEN);
	ssize_t n = want ? pread(fd, buf_reserve(ret, want), want, (off_t)(len - want)) : 0;

	if (n < 0)
		return err_sys(errno, "read its end");
	buf_wrote(ret, (size_t)n);
	return NULL;
}

/* The line that ends where p[0..len) does; *ret_len is what comes before it. */
static struct span last_line(const char *p, size_t len, size_t *ret_len)
{
	const char *start = len ? memrchr(p, '\n', len) : NULL;

	start = start ? start + 1 : p;
	*ret_len = start > p ? (size_t)(start - p) - 1 : 0;
	return (struct span){ start, (size_t)(p + len - start) };
}

/* The number of a file is in its first line. */
static void read_segment(struct audit_file *f, int fd)
{
	char first[512];
	ssize_t n = pread(fd, first, sizeof(first), 0);
	const char *end = n > 0 ? memchr(first, '\n', (size_t)n) : NULL;
	struct chain c;

	chain_init(&c, NULL);
	if (end && chain_follow(&c, first, (size_t)(end - first)))
		f->chain.segment = MAX(f->chain.segment, c.segment);
}

/* Goes on after the last line of a file. *ret_torn: it cannot be read, and its end says so next. */
static struct err *follow_file(struct audit_file *f, int fd, uint64_t len, bool *ret_torn)
{
	autobuf tail = { 0 };
	struct err *e = read_tail(fd, len, &tail);
	const char *p = tail.len ? buf_head(&tail) : "";
	size_t before = tail.len;
	struct span line, prior;
	bool whole;

	if (e || !tail.len)
		return e;
	read_segment(f, fd);
	whole = p[tail.len - 1] == '\n';
	line = last_line(p, whole ? tail.len - 1 : tail.len, &before);
	if (whole && chain_follow(&f->chain, line.p, line.len))
		return NULL;
	*ret_torn =
		!whole || f->chain.segment;    /* a log from before there were chains is as it is */
	prior = last_line(p, before, &before); /* has the number */
	(void)chain_follow(&f->chain, prior.p, prior.len);
	chain_follow_torn(&f->chain, line.p, line.len);
	if (!whole)
		buf_add_char(&f->out, '\n');
	return NULL;
}

static struct err *write_head(const struct audit_file *f)
{
	uint64_t oldest = f->chain.segment > f->keep ? f->chain.segment - f->keep : 1;
	char name[NAME_MAX + 1];
	autobuf head = { 0 };

	chain_head_write(&f->chain, oldest, &head);
	head_name(f, name);
	return file_write_atomic(f->dir, name, buf_head(&head), head.len, 0600);
}

/* Lines that were signed must still be there, and so must what says which. */
static void check_head(struct audit_file *f, const unsigned char *key)
{
	autofree char *text = NULL;
	struct chain_head h = { 0 };
	char name[NAME_MAX + 1];
	size_t len = 0;
	struct err *e;

	head_name(f, name);
	e = file_read(f->dir, name, HEAD_MAX, &text, &len);
	if (!e)
		e = chain_head_read(text, len, key, &h);
	if (e ? f->chain.segment : h.n > f->chain.n)
		chain_add_missing(&f->chain, clock_wall(), &h, &f->out);
	err_free(e);
}

static struct err *resume(struct audit_file *f, const unsigned char *key)
{
	char name[NAME_MAX + 1];
	bool torn = false;
	struct stat st;
	struct err *e;
	int fd;

	f->records = f->len;
	if (f->len) {
		e = follow_file(f, f->fd, f->len, &torn);
	} else {
		numbered(f, 1, name);
		fd = openat(f->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		e = NULL;
		if (fd >= 0 && !fstat(fd, &st))
			e = follow_file(f, fd, (uint64_t)st.st_size, &torn);
		if (fd >= 0)
			(void)close(fd);
		buf_clear(&f->out); /* it was on disk before it was rotated */
		torn = false;
	}
	if (e)
		return e;
	f->needs_begin = !f->len || !f->chain.segment;
	if (torn)
		chain_add_torn(&f->chain, clock_wall(), &f->out);
	check_head(f, key);
	return f->chain.n ? NULL : write_head(f); /* from now on there always is one */
}

/* Of a time when more were kept. */
static void drop_old(const struct audit_file *f)
{
	char name[NAME_MAX + 1];

	for (unsigned n = f->keep + 1; n <= OLD_MAX; n++) {
		numbered(f, n, name);
		if (unlinkat(f->dir, name, 0) < 0)
			return;
	}
}

struct err *audit_file_open(const struct audit_spec *spec, struct audit_file **ret)
{
	autoptr(audit_file) f = xnew(struct audit_file);
	unsigned char key[ED25519_KEY_LEN];
	struct err *e = NULL;

	f->dir = f->fd = -1;
	f->max_bytes = spec->max_bytes;
	f->keep = spec->keep;
	chain_init(&f->chain, spec->key);
	if (spec->key)
		ed25519_public(spec->key, key);
	if (str_eq(spec->path, "-")) {
		f->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		e = f->fd < 0 ? err_sys(errno, "use standard output") : NULL;
		f->needs_begin = true;
	} else {
		e = open_dir(f, spec->path);
		if (!e)
			e = open_file(f);
		if (!e)
			e = resume(f, spec->key ? key : NULL);
		if (!e)
			drop_old(f);
	}
	if (e)
		return e;
	*ret = take(f);
	return NULL;
}

static struct err *rotate(struct audit_file *f)
{
	char from[NAME_MAX + 1], to[NAME_MAX + 1];

	for (unsigned n = f->keep; n > 0; n--) {
		numbered(f, n - 1, from);
		numbered(f, n, to);
		if (renameat(f->dir, from, f->dir, to) < 0 && errno != ENOENT)
			return err_sys(errno, "rename %s to %s", from, to);
	}
	if (!f->keep && unlinkat(f->dir, f->name, 0) < 0 && errno != ENOENT)
		return err_sys(errno, "remove %s", f->name);
	(void)close(take_fd(f->fd));
	return open_file(f);
}

static struct err *flush(struct audit_file *f)
{
	while (f->out.len) {
		ssize_t n = write(f->fd, buf_head(&f->out), f->out.len);

		if (n < 0 && errno != EINTR)
			return err_sys(errno, "write to %s", f->name ? f->name : "standard output");
		if (n > 0) {
			f->len += (uint64_t)n;
			f->unsynced = true;
			buf_eat(&f->out, (size_t)n);
		}
	}
	return NULL;
}

static bool is_full(const struct audit_file *f, size_t more)
{
	uint64_t have = f->len + f->out.len, room = LINK_ROOM + (f->chain.key ? SIGN_ROOM : 0);

	return f->dir >= 0 && f->records && have + more + room > f->max_bytes;
}

/* The old file ends with a signature, the new one begins with its number. */
static struct err *turn_over(struct audit_file *f)
{
	struct err *e;

	if (f->chain.since)
		chain_add_checkpoint(&f->chain, clock_wall(), &f->out);
	e = flush(f);
	if (!e && fdatasync(f->fd) < 0)
		e = err_sys(errno, "sync %s", f->name);
	if (e)
		return e;
	f->needs_begin = true;
	f->records = false;
	return rotate(f);
}

bool audit_file_is_quick(const struct audit_file *f, size_t len, uint64_t n_lines)
{
	size_t links = n_lines * LINK_ROOM, signs = (1 + n_lines / CHAIN_EVERY) * SIGN_ROOM;

	return f->dir >= 0 && f->fd >= 0 && !f->out.len && !f->needs_begin &&
	       !is_full(f, len + links + signs);
}

struct err *audit_file_append(struct audit_file *f, struct buf *b)
{
	struct err *e = f->fd < 0 ? open_file(f) : NULL;

	if (!e)
		e = flush(f);
	while (!e && b->len) {
		const char *p = buf_head(b), *end = memchr(p, '\n', b->len);
		size_t len = (size_t)(end - p);

		if (is_full(f, len)) {
			e = turn_over(f);
			if (e)
				break;
		}
		if (f->needs_begin)
			chain_add_begin(&f->chain, clock_wall(), &f->out);
		f->needs_begin = false;
		chain_add(&f->chain, p, len, &f->out);
		f->records = true;
		buf_eat(b, len + 1);
		if (f->chain.since >= CHAIN_EVERY)
			chain_add_checkpoint(&f->chain, clock_wall(), &f->out);
	}
	return e ? e : flush(f);
}

/* The file, and then where it ends: what the head says is on disk. */
struct err *audit_file_sync(struct audit_file *f)
{
	if (f->dir < 0 || f->fd < 0 || !f->unsynced)
		return NULL;
	if (fdatasync(f->fd) < 0)
		return err_sys(errno, "sync %s", f->name);
	f->unsynced = false;
	return write_head(f);
}

/* The last line of a server that stops is a signature. */
struct err *audit_file_end(struct audit_file *f)
{
	struct err *e;

	if (f->chain.since)
		chain_add_checkpoint(&f->chain, clock_wall(), &f->out);
	e = f->fd < 0 ? open_file(f) : NULL;
	if (!e)
		e = flush(f);
	return e ? e : audit_file_sync(f);
}

void audit_file_free(struct audit_file *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		(void)close(f->fd);
	if (f->dir >= 0)
		(void)close(f->dir);
	buf_done(&f->out);
	free(f->name);
	free(f);
}
