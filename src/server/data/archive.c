/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/tar.h"
#include "crypto/crypto.h"
#include "json/json.h"
#include "server/data/archive_priv.h"

/*
 * Digests come last, so that neither side has to read a file twice. A reader that is given anything
 * else than what was written finds out at the end at the latest, before anything was used.
 */
#define ARCHIVE_SUMS "SHA256SUMS"
enum {
	FORMAT = 1,
	PIECE = 256 * 1024,
	N_FILES_MAX = 16,
};

const struct archive_file archive_files[] = {
	{ ARCHIVE_STORE, true }, /* all objects */
	{ "ca.crt", true },      /* which signed the certificates of all clients */
	{ "ca.key", true },
	{ "sa.key", true },      /* which signs tokens of service accounts */
	{ "router.key", false }, /* which signs URLs into sandboxes */
	{ 0 },
};

/* Writing */

static struct err *put(struct archive_writer *w, const struct buf *b)
{
	w->bytes += b->len;
	return fd_write_all(w->fd, buf_head(b), b->len);
}

static void note_sum(struct archive_writer *w, const char *name, struct sha256 *sum)
{
	char text[DIGEST_TEXT_LEN];

	sha256_end_text(sum, text);
	buf_printf(&w->sums, "%s  %s\n", text + strlen("sha256:"), name);
}

static struct err *put_header(struct archive_writer *w, const char *name, uint64_t size)
{
	const struct tar_entry head = {
		.type = TAR_FILE, .path = name, .size = size, .mode = 0600
	};
	autobuf b = { 0 };

	tar_put_header(&b, &head);
	return put(w, &b);
}

static struct err *put_padding(struct archive_writer *w, uint64_t size)
{
	autobuf b = { 0 };

	tar_put_padding(&b, size);
	return put(w, &b);
}

struct err *archive_put_text(struct archive_writer *w, const char *name, const char *text)
{
	autoptr(sha256) sum = sha256_new();
	autobuf b = { 0 };
	struct err *e = put_header(w, name, strlen(text));

	if (e)
		return e;
	buf_add_str(&b, text);
	sha256_add(sum, text, b.len);
	note_sum(w, name, sum);
	tar_put_padding(&b, b.len);
	return put(w, &b);
}

/* The size was promised in the header. */
static struct err *put_content(struct archive_writer *w, int from, uint64_t size,
			       struct sha256 *sum)
{
	uint64_t done = 0;
	struct err *e = NULL;
	autobuf b = { 0 };

	while (!e && done < size) {
		size_t most = (size_t)MIN((uint64_t)PIECE, size - done);
		ssize_t n;

		buf_clear(&b);
		n = read(from, buf_reserve(&b, most), most);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? err_sys(errno, "read")
				     : err_new(ERR_UNAVAILABLE,
					       "it became shorter while it was read");
		buf_wrote(&b, (size_t)n);
		sha256_add(sum, buf_head(&b), b.len);
		done += b.len;
		e = put(w, &b);
		if (w->progress && w->progress->fn)
			w->progress->fn(w->progress->arg, "write the archive", done, size);
	}
	return e;
}

struct err *archive_put_file(struct archive_writer *w, const char *name, int from)
{
	autoptr(sha256) sum = sha256_new();
	struct stat st;
	struct err *e;

	if (fstat(from, &st) < 0)
		return err_sys(errno, "look at %s", name);
	e = put_header(w, name, (uint64_t)st.st_size);
	if (!e)
		e = err_wrap(put_content(w, from, (uint64_t)st.st_size, sum), "copy %s", name);
	if (e)
		return e;
	note_sum(w, name, sum);
	return put_padding(w, (uint64_t)st.st_size);
}

struct err *archive_put_facts(struct archive_writer *w, const struct data_backup_facts *f)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *root = json_obj(d);
	autobuf text = { 0 };

	json_set_root(d, root);
	json_set_int(d, root, "format", FORMAT);
	json_set_str(d, root, "created", f->created);
	json_set_str(d, root, "version", f->version);
	json_set(d, root, "storeId", json_new_strf(d, "%016llx", (unsigned long long)f->id));
	json_set_int(d, root, "revision", (int64_t)f->rev);
	json_set_int(d, root, "objects", (int64_t)f->objects);
	json_set_int(d, root, "schema", f->schema);
	json_write_pretty(root, &text);
	buf_add_char(&text, '\n');
	return archive_put_text(w, ARCHIVE_FACTS, buf_str(&text));
}

struct err *archive_end(struct archive_writer *w)
{
	autofree char *sums = xstrdup(buf_str(&w->sums));
	autobuf end = { 0 };
	struct err *e = archive_put_text(w, ARCHIVE_SUMS, sums);

	tar_put_end(&end);
	return e ? e : put(w, &end);
}

void archive_writer_done(struct archive_writer *w)
{
	buf_done(&w->sums);
}

/* Reading */

struct unpacking {
	int dir, fd; /* fd -1: the entry is kept in text */
	struct sha256 *sum;
	struct buf text;           /* of an entry that is not a file of the directory */
	struct buf sums;           /* as they are, in the form of the last entry */
	char *name, *facts, *last; /* last: SHA256SUMS */
	uint64_t done, all;        /* bytes of the archive */
	unsigned n;
	bool seen[N_FILES_MAX];
	const struct data_progress *progress;
};

static struct err *corrupt(const char *what)
{
	return err_new(ERR_CORRUPT, "%s", what);
}

static int index_of(const char *name)
{
	for (int i = 0; archive_files[i].name; i++)
		if (str_eq(archive_files[i].name, name))
			return i;
	return -1;
}

static struct err *begin_file(struct unpacking *u, const char *name, uint64_t size)
{
	int i = index_of(name);

	if (i < 0)
		return err_new(ERR_CORRUPT, "\"%s\" is not a file of a backup", name);
	if (u->seen[i])
		return err_new(ERR_CORRUPT, "%s is in it twice", name);
	if (size > ARCHIVE_SMALL_MAX && !str_eq(name, ARCHIVE_STORE))
		return err_new(ERR_CORRUPT, "%s has more than %d bytes", name, ARCHIVE_SMALL_MAX);
	u->seen[i] = true;
	u->fd = openat(u->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	return u->fd < 0 ? err_sys(errno, "create %s", name) : NULL;
}

static struct err *on_entry(void *arg, const struct tar_entry *e)
{
	struct unpacking *u = arg;

	if (u->last)
		return err_new(ERR_CORRUPT, "\"%s\" comes after its end", e->path);
	if (u->n++ == 0 && !str_eq(e->path, ARCHIVE_FACTS))
		return corrupt("it is not a backup of Cay: it does not begin with " ARCHIVE_FACTS);
	if (e->type != TAR_FILE)
		return err_new(ERR_CORRUPT, "\"%s\" is not a plain file", e->path);
	u->name = xstrdup(e->path);
	u->sum = sha256_new();
	if (!str_eq(e->path, ARCHIVE_SUMS) && (u->n > 1 || !str_eq(e->path, ARCHIVE_FACTS)))
		return begin_file(u, e->path, e->size);
	return e->size > ARCHIVE_SMALL_MAX ? corrupt("its description is too long") : NULL;
}

static struct err *on_data(void *arg, const char *p, size_t len)
{
	struct unpacking *u = arg;

	sha256_add(u->sum, p, len);
	if (u->fd >= 0)
		return err_wrap(fd_write_all(u->fd, p, len), "unpack %s", u->name);
	buf_add(&u->text, p, len);
	return NULL;
}

static void close_entry(struct unpacking *u)
{
	if (u->fd >= 0)
		(void)close(take_fd(u->fd));
	sha256_free(take(u->sum));
	free(take(u->name));
}

static struct err *on_end(void *arg)
{
	struct unpacking *u = arg;
	char digest[DIGEST_TEXT_LEN];
	struct err *e = NULL;

	if (u->fd >= 0 && fsync(u->fd) < 0)
		e = err_sys(errno, "sync %s", u->name);
	if (str_eq(u->name, ARCHIVE_SUMS)) {
		u->last = buf_steal(&u->text, NULL);
	} else {
		sha256_end_text(u->sum, digest);
		buf_printf(&u->sums, "%s  %s\n", digest + strlen("sha256:"), u->name);
		if (u->fd < 0)
			u->facts = buf_steal(&u->text, NULL);
	}
	close_entry(u);
	return e;
}

static struct err *feed(struct unpacking *u, int fd)
{
	static const struct tar_events events = { on_entry, on_data, on_end };
	autoptr(tar_reader) t = tar_reader_new(&events, u);
	autofree char *piece = xmalloc(PIECE);
	struct err *e = NULL;
	ssize_t n;

	while (!e && (n = read(fd, piece, PIECE)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(errno, "read");
		e = tar_feed(t, piece, (size_t)n);
		u->done += (uint64_t)n;
		if (u->progress->fn)
			u->progress->fn(u->progress->arg, "unpack", u->done, u->all);
	}
	if (!e)
		e = tar_finish(t);
	/* What a reader of tar calls invalid is damage here, and not a wrong flag. */
	return err_is(e, ERR_INVALID) ? err_recode(e, ERR_CORRUPT) : e;
}

static struct err *read_facts(const char *text, struct data_backup_facts *ret)
{
	autoptr(json_doc) d = NULL;
	const struct json *root;
	struct err *e = json_parse(text, strlen(text), NULL, &d);

	if (e)
		return err_recode(err_wrap(e, ARCHIVE_FACTS), ERR_CORRUPT);
	root = json_root(d);
	if (json_get_int(root, "format", 0) != FORMAT)
		return err_new(
			ERR_UNSUPPORTED,
			"it has format %lld, and this version of Cay reads format %d; use the "
			"version that made it (%s) or a newer one",
			(long long)json_get_int(root, "format", 0), FORMAT,
			str_or(json_get_str(root, "version"), "unknown"));
	(void)snprintf(ret->created, sizeof(ret->created), "%s",
		       str_or(json_get_str(root, "created"), ""));
	(void)snprintf(ret->version, sizeof(ret->version), "%s",
		       str_or(json_get_str(root, "version"), ""));
	return NULL;
}

static struct err *verify(const struct unpacking *u)
{
	struct buf sums = u->sums;

	if (!u->last)
		return corrupt("it has no " ARCHIVE_SUMS " at its end");
	for (int i = 0; archive_files[i].name; i++)
		if (archive_files[i].required && !u->seen[i])
			return err_new(ERR_CORRUPT, "it has no %s", archive_files[i].name);
	if (!str_eq(u->last, buf_str(&sums)))
		return corrupt("its content does not match its checksums");
	return NULL;
}

struct err *archive_unpack(const char *file, int dir, const struct data_progress *progress,
			   struct data_backup_facts *ret)
{
	struct unpacking u = { .dir = dir, .fd = -1, .progress = progress };
	autoclose fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;
	struct err *e;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(errno, "open %s", file);
	u.all = ret->bytes = (uint64_t)st.st_size;
	e = feed(&u, fd);
	if (!e)
		e = verify(&u);
	if (!e)
		e = read_facts(u.facts, ret);
	close_entry(&u);
	buf_done(&u.text);
	buf_done(&u.sums);
	free(u.facts);
	free(u.last);
	return err_wrap(e, "read backup %s", file);
}
