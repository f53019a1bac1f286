/* SPDX-License-Identifier: Apache-2.0 */
#include "audit/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/reader_priv.h"
#include "json/json.h"

enum {
	FILES_MAX = 10000, /* names that are looked for */
	HOLES_MAX = 3, /* names that are missing before one that is there: a rotation moves on */
	PIECE = 64 * 1024,
	HEAD_LEN = 8 * 1024, /* in which the first record of a file begins */
	SEEK_LEN = 64 * 1024,
};

/* What is wanted */

static bool about_sandbox(const struct json *o, const char *name)
{
	static const char *const kinds[] = { "sandboxes", "pods", "sandboxclaims", NULL };

	return str_eq(json_get_str(o, "pod"), name) ||
	       (str_in(json_get_str(o, "resource"), kinds) &&
		str_eq(json_get_str(o, "name"), name));
}

/* cay:agent:NAMESPACE:NAME */
static bool by_agent(const struct json *o, const char *agent)
{
	const char *user = str_or(json_get_str(o, "as"), json_get_str(o, "user"));
	const char *colon = user ? strrchr(user, ':') : NULL;

	return colon && str_starts(user, "cay:agent:") && str_eq(colon + 1, agent);
}

static bool in_time(const struct audit_filter *f, const struct json *o)
{
	usec when = 0;

	if (!f->since && !f->until)
		return true;
	err_free(clock_parse(str_or(json_get_str(o, "time"), ""), &when));
	return when >= f->since && (!f->until || when < f->until);
}

bool audit_filter_wants(const struct audit_filter *f, const struct json *record)
{
	const struct json *o = record;

	if (!f->chain && (json_get(o, "begin") || json_get(o, "checkpoint")))
		return false;
	return (!f->sandbox || about_sandbox(o, f->sandbox)) &&
	       (!f->user || str_eq(json_get_str(o, "user"), f->user) ||
		str_eq(json_get_str(o, "as"), f->user)) &&
	       (!f->agent || by_agent(o, f->agent)) &&
	       (!f->ns || str_eq(json_get_str(o, "namespace"), f->ns)) &&
	       (!f->verb || str_eq(json_get_str(o, "verb"), f->verb)) &&
	       (!f->refused || json_get_int(o, "status", 0) >= 400) && in_time(f, o);
}

/* Files */

static char *name_of(const char *path, unsigned i)
{
	return i ? xasprintf("%s.%u", path, i) : xstrdup(path);
}

/* *ret stays -1 if there is no such file. */
static struct err *open_part(const char *name, int *ret, struct stat *ret_st)
{
	autoclose fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return errno == ENOENT ? NULL : err_sys(errno, "open %s", name);
	if (fstat(fd, ret_st) < 0)
		return err_sys(errno, "look at %s", name);
	if (!S_ISREG(ret_st->st_mode))
		return err_new(ERR_INVALID, "%s is not a regular file", name);
	*ret = take_fd(fd);
	return NULL;
}

static bool is_known(const struct audit_parts *p, const struct stat *st)
{
	struct stat other;

	for (size_t i = 0; i < p->n; i++)
		if (!fstat(p->list[i].fd, &other) && other.st_dev == st->st_dev &&
		    other.st_ino == st->st_ino)
			return true;
	return false;
}

static void add_part(struct audit_parts *p, int fd, char *name, const struct stat *st)
{
	p->list = xrealloc(p->list, (p->n + 1) * sizeof(*p->list));
	p->list[p->n++] = (struct audit_part){ fd, name, (uint64_t)st->st_size };
	p->bytes += (uint64_t)st->st_size;
}

static void turn_round(struct audit_parts *p)
{
	for (size_t i = 0; i < p->n / 2; i++) {
		struct audit_part other = p->list[i];

		p->list[i] = p->list[p->n - 1 - i];
		p->list[p->n - 1 - i] = other;
	}
}

struct err *audit_parts_open(const char *path, struct audit_parts *ret)
{
	struct audit_parts p = { 0 };
	struct err *e = NULL;

	for (unsigned i = 0, holes = 0; !e && i < FILES_MAX && holes < HOLES_MAX; i++) {
		autofree char *name = name_of(path, i);
		struct stat st;
		int fd = -1;

		e = open_part(name, &fd, &st);
		if (!e && !i && fd < 0)
			e = err_sys(ENOENT, "open %s", name);
		holes = fd < 0 ? holes + 1 : 0;
		if (fd >= 0 && is_known(&p, &st))
			(void)close(fd);
		else if (fd >= 0)
			add_part(&p, fd, take(name), &st);
	}
	if (e) {
		audit_parts_done(&p);
		return e;
	}
	turn_round(&p);
	*ret = p;
	return NULL;
}

void audit_parts_done(struct audit_parts *p)
{
	for (size_t i = 0; i < p->n; i++) {
		(void)close(p->list[i].fd);
		free(p->list[i].name);
	}
	free(p->list);
	*p = (struct audit_parts){ 0 };
}

struct err *log_pread(int fd, void *p, size_t len, uint64_t at, size_t *ret_len)
{
	size_t have = 0;

	while (have < len) {
		ssize_t n = pread(fd, (char *)p + have, len - have, (off_t)(at + have));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(errno, "read the audit log");
		if (!n)
			break;
		have += (size_t)n;
	}
	*ret_len = have;
	return NULL;
}

/* A line longer than the rest of ours is kept as its beginning, which is no record. */
static void keep_line(struct audit_scan *s, const char *p, size_t len)
{
	buf_add(&s->line, p, MIN(len, (size_t)AUDIT_LINE_MAX - s->line.len));
}

static void end_line(struct audit_scan *s)
{
	s->fn(s->arg, ++s->number, s->line.len ? buf_head(&s->line) : "", s->line.len);
	buf_clear(&s->line);
}

static void feed(struct audit_scan *s, const char *p, size_t len)
{
	const char *end;

	while ((end = memchr(p, '\n', len))) {
		size_t n = (size_t)(end - p);

		if (s->line.len || n > AUDIT_LINE_MAX) {
			keep_line(s, p, n);
			end_line(s);
		} else {
			s->fn(s->arg, ++s->number, p, n);
		}
		p += n + 1;
		len -= n + 1;
	}
	keep_line(s, p, len);
}

struct err *audit_scan_step(struct audit_scan *s, size_t max)
{
	autofree char *piece = xmalloc(PIECE);

	for (size_t done = 0; done < max && s->at < s->len;) {
		size_t want = (size_t)MIN(s->len - s->at, (uint64_t)PIECE), n = 0;
		struct err *e = log_pread(s->fd, piece, want, s->at, &n);

		if (e)
			return e;
		feed(s, piece, n);
		done += n;
		s->at += n;
		if (n < want)
			s->len = s->at; /* somebody has cut it */
	}
	if (s->at == s->len && s->line.len)
		end_line(s);
	return NULL;
}

void audit_scan_done(struct audit_scan *s)
{
	buf_done(&s->line);
}

/* Records by number */

/* As chain.c writes it; whoever needs to be sure parses the line. 0: there is none. */
static uint64_t number_at(const char *p, size_t len)
{
	static const char head[] = "{\"n\":";
	size_t i = sizeof(head) - 1;
	uint64_t n = 0;

	if (len <= i || memcmp(p, head, i) != 0)
		return 0;
	for (; i < len && p[i] >= '0' && p[i] <= '9'; i++) {
		if (n > UINT64_MAX / 10 - 1)
			return 0;
		n = n * 10 + (uint64_t)(p[i] - '0');
	}
	return i < len && p[i] == ',' ? n : 0;
}

/* The first number in the lines of p; *ret_off: where its line begins. The first line counts only
 * if p is known to begin with one. */
static uint64_t first_number(const char *p, size_t len, bool at_line, size_t *ret_off)
{
	size_t off = 0;

	while (off < len) {
		const char *end = memchr(p + off, '\n', len - off);
		uint64_t n = at_line ? number_at(p + off, len - off) : 0;

		if (n) {
			*ret_off = off;
			return n;
		}
		if (!end)
			return 0;
		at_line = true;
		off = (size_t)(end - p) + 1;
	}
	return 0;
}

struct json_doc *log_line_read(const char *p, size_t len, uint64_t *ret_n)
{
	struct json_doc *d = NULL;
	struct err *e;
	int64_t n;

	if (!len || len > AUDIT_LINE_MAX)
		return NULL;
	e = json_parse(p, len, NULL, &d);
	if (e) {
		err_free(e); /* a torn line is for verify */
		return NULL;
	}
	n = json_is(json_root(d), JSON_OBJ) ? json_get_int(json_root(d), "n", 0) : 0;
	if (n <= 0) {
		json_doc_free(d);
		return NULL;
	}
	*ret_n = (uint64_t)n;
	return d;
}

void log_file_close(struct log_file *f)
{
	if (f->fd >= 0)
		(void)close(f->fd);
	*f = (struct log_file){ .fd = -1 };
}

/* The i-th name. fd -1: there is no such file, or it has no record. */
static struct err *open_nth(const char *path, unsigned i, bool *ret_there, struct log_file *ret)
{
	autofree char *name = name_of(path, i);
	struct log_file f = { .fd = -1 };
	char head[HEAD_LEN];
	struct stat st;
	size_t n = 0, off;
	struct err *e = open_part(name, &f.fd, &st);

	*ret_there = f.fd >= 0;
	*ret = (struct log_file){ .fd = -1 };
	if (e || f.fd < 0)
		return e;
	e = log_pread(f.fd, head, sizeof(head), 0, &n);
	f.first = e ? 0 : first_number(head, n, true, &off);
	f.len = (uint64_t)st.st_size;
	if (!f.first)
		log_file_close(&f);
	*ret = f;
	return e;
}

struct err *log_file_with(const char *path, uint64_t n, struct log_file *ret)
{
	*ret = (struct log_file){ .fd = -1 };
	for (unsigned i = 0, holes = 0; i < FILES_MAX && holes < HOLES_MAX; i++) {
		struct log_file f;
		bool there;
		struct err *e = open_nth(path, i, &there, &f);

		if (e)
			return e;
		holes = there ? 0 : holes + 1;
		if (f.fd >= 0 && f.first <= n) {
			*ret = f;
			return NULL;
		}
		log_file_close(&f);
	}
	return NULL;
}

struct err *log_file_after(const char *path, uint64_t n, struct log_file *ret)
{
	struct log_file best = { .fd = -1 };

	*ret = best;
	for (unsigned i = 0, holes = 0; i < FILES_MAX && holes < HOLES_MAX; i++) {
		struct log_file f;
		bool there;
		struct err *e = open_nth(path, i, &there, &f);

		if (e) {
			log_file_close(&best);
			return e;
		}
		holes = there ? 0 : holes + 1;
		if (f.fd < 0)
			continue;
		if (f.first <= n) {
			log_file_close(&f);
			break; /* the others are older still */
		}
		if (best.fd < 0 || f.first < best.first) {
			log_file_close(&best);
			best = f;
		} else {
			log_file_close(&f);
		}
	}
	*ret = best;
	return NULL;
}

bool log_file_is_youngest(const struct log_file *f, const char *path)
{
	struct stat mine, there;

	return !fstat(f->fd, &mine) && !stat(path, &there) && mine.st_dev == there.st_dev &&
	       mine.st_ino == there.st_ino;
}

struct err *log_file_seek(const struct log_file *f, uint64_t n, uint64_t *ret_begin,
			  uint64_t *ret_end)
{
	autofree char *piece = xmalloc(SEEK_LEN);
	uint64_t low = 0, high = f->len;

	while (high - low > 2 * SEEK_LEN) {
		uint64_t middle = low + (high - low) / 2, found;
		size_t len = 0, off = 0;
		struct err *e = log_pread(f->fd, piece, SEEK_LEN, middle, &len);

		if (e)
			return e;
		found = first_number(piece, len, false, &off);
		if (!found)
			break; /* a line that is longer than this: from low on it is found */
		if (found < n)
			low = middle + off;
		else
			high = middle + off;
	}
	*ret_begin = low;
	*ret_end = high;
	return NULL;
}
