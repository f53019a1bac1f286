/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/wire.h"

#include <assert.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

/*
 * Frames are written and read byte by byte in little endian, so neither alignment nor the machine's
 * byte order matters. Reading goes through a cursor that remembers the first overrun: a decoder
 * reads all its fields and checks once, at the end, that they were all there and nothing followed
 * them.
 */
enum {
	AFTER_LENGTH = WIRE_HEAD - 4, /* the part of the head that the length includes */
	EXITED_LEN = 9,               /* and of STATE: without the message */
	STATE_LEN = 23,
};

static void set_le(char *p, uint64_t v, unsigned n_bytes)
{
	for (unsigned i = 0; i < n_bytes; i++)
		p[i] = (char)(v >> (8 * i));
}

static void put_le(struct buf *out, uint64_t v, unsigned n_bytes)
{
	set_le(buf_reserve(out, n_bytes), v, n_bytes);
	buf_wrote(out, n_bytes);
}

static uint64_t get_le(const char *p, unsigned n_bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < n_bytes; i++)
		v |= (uint64_t)(unsigned char)p[i] << (8 * i);
	return v;
}

struct err *wire_next(const char *in, size_t len, struct wire_frame *ret, size_t *ret_used,
		      int *ret_have)
{
	uint64_t size;
	unsigned type;

	*ret_have = 0;
	if (len < 4)
		return NULL;
	size = get_le(in, 4);
	if (size < AFTER_LENGTH || size > WIRE_MAX)
		return err_new(ERR_MALFORMED, "frame length %llu is not between %d and %d",
			       (unsigned long long)size, AFTER_LENGTH, WIRE_MAX);
	if (len < 5)
		return NULL;
	type = (unsigned char)in[4];
	if (type >= WIRE_TYPE_MAX_)
		return err_new(ERR_MALFORMED, "frame type %u is unknown", type);
	if (len < 4 + size)
		return NULL;
	*ret = (struct wire_frame){
		.type = (enum wire_type)type,
		.stream = (uint32_t)get_le(in + 5, 4),
		.payload = in + WIRE_HEAD,
		.len = size - AFTER_LENGTH,
	};
	*ret_used = 4 + size;
	*ret_have = 1;
	return NULL;
}

void wire_head(char ret[WIRE_HEAD], enum wire_type type, uint32_t stream, size_t len)
{
	assert(len <= WIRE_MAX - AFTER_LENGTH);
	set_le(ret, len + AFTER_LENGTH, 4);
	set_le(ret + 4, type, 1);
	set_le(ret + 5, stream, 4);
}

static void put_head(struct buf *out, enum wire_type type, uint32_t stream, size_t len)
{
	wire_head(buf_reserve(out, WIRE_HEAD), type, stream, len);
	buf_wrote(out, WIRE_HEAD);
}

void wire_put(struct buf *out, enum wire_type type, uint32_t stream, const void *payload,
	      size_t len)
{
	put_head(out, type, stream, len);
	if (len)
		buf_add(out, payload, len);
}

void wire_put_u32s(struct buf *out, enum wire_type type, uint32_t stream, const uint32_t *v,
		   unsigned n)
{
	put_head(out, type, stream, 4 * (size_t)n);
	for (unsigned i = 0; i < n; i++)
		put_le(out, v[i], 4);
}

void wire_put_u16s(struct buf *out, enum wire_type type, uint32_t stream, const uint16_t *v,
		   unsigned n)
{
	put_head(out, type, stream, 2 * (size_t)n);
	for (unsigned i = 0; i < n; i++)
		put_le(out, v[i], 2);
}

static void put_str(struct buf *out, const char *s)
{
	size_t len = s ? strlen(s) : 0;

	put_le(out, len, 4);
	if (len)
		buf_add(out, s, len);
}

static void put_strs(struct buf *out, const char *const *list)
{
	uint32_t n = 0;

	while (list && list[n])
		n++;
	put_le(out, n, 4);
	for (uint32_t i = 0; i < n; i++)
		put_str(out, list[i]);
}

static size_t strs_len(const char *const *list)
{
	size_t len = 4;

	for (; list && *list; list++)
		len += 4 + strlen(*list);
	return len;
}

/* argv, env, cwd, uid, gid, groups, flags, cols, rows, runtime_port, keep_caps, nofile, and
 * message_path if there is one */
static size_t start_len(const struct wire_start *s)
{
	return strs_len(s->argv) + strs_len(s->env) + 4 + (s->cwd ? strlen(s->cwd) : 0) + 4 + 4 +
	       4 + 4 * (size_t)s->n_groups + 4 + 2 + 2 + 2 + 8 + 4 +
	       (s->message_path ? 4 + strlen(s->message_path) : 0);
}

bool wire_start_fits(const struct wire_start *s)
{
	return start_len(s) <= WIRE_MAX - AFTER_LENGTH;
}

void wire_put_start(struct buf *out, enum wire_type type, uint32_t stream,
		    const struct wire_start *s)
{
	put_head(out, type, stream, start_len(s));
	put_strs(out, s->argv);
	put_strs(out, s->env);
	put_str(out, s->cwd);
	put_le(out, s->uid, 4);
	put_le(out, s->gid, 4);
	put_le(out, s->n_groups, 4);
	for (uint32_t i = 0; i < s->n_groups; i++)
		put_le(out, s->groups[i], 4);
	put_le(out, s->flags, 4);
	put_le(out, s->cols, 2);
	put_le(out, s->rows, 2);
	put_le(out, s->runtime_port, 2);
	put_le(out, s->keep_caps, 8);
	put_le(out, s->nofile, 4);
	if (s->message_path)
		put_str(out, s->message_path);
}

void wire_put_failed(struct buf *out, uint32_t stream, int errnum, const char *text)
{
	size_t len = strnlen(text, WIRE_TEXT_MAX);

	put_head(out, WIRE_FAILED, stream, 8 + len);
	put_le(out, (uint32_t)errnum, 4);
	put_le(out, len, 4);
	buf_add(out, text, len);
}

static void put_exited(struct buf *out, uint32_t stream, const struct wire_state *s)
{
	put_head(out, WIRE_EXITED, stream, EXITED_LEN + s->message.len);
	put_le(out, s->exit_code, 4);
	put_le(out, s->signal, 4);
	put_le(out, s->oom, 1);
	buf_add(out, s->message.p, s->message.len);
}

void wire_put_exited(struct buf *out, uint32_t stream, uint32_t code, uint32_t signal, bool oom)
{
	put_exited(out, stream,
		   &(struct wire_state){ .exit_code = code, .signal = signal, .oom = oom });
}

void wire_put_ended(struct buf *out, const struct wire_state *s)
{
	put_exited(out, 0, s);
}

void wire_put_state(struct buf *out, const struct wire_state *s)
{
	put_head(out, WIRE_STATE, 0, STATE_LEN + s->message.len);
	put_le(out, s->started, 1);
	put_le(out, s->exited, 1);
	put_le(out, s->pid, 4);
	put_le(out, s->exit_code, 4);
	put_le(out, s->signal, 4);
	put_le(out, s->oom, 1);
	put_le(out, s->exited_at_us, 8);
	buf_add(out, s->message.p, s->message.len);
}

struct cursor {
	const char *p;
	size_t len;
	bool bad;
};

static uint64_t read_le(struct cursor *c, unsigned n_bytes)
{
	uint64_t v;

	if (c->bad || c->len < n_bytes) {
		c->bad = true;
		return 0;
	}
	v = get_le(c->p, n_bytes);
	c->p += n_bytes;
	c->len -= n_bytes;
	return v;
}

static bool read_bool(struct cursor *c)
{
	uint64_t v = read_le(c, 1);

	if (v > 1)
		c->bad = true;
	return v == 1;
}

static char *read_str(struct cursor *c)
{
	uint64_t len = read_le(c, 4);
	char *s;

	if (c->bad || len > c->len || memchr(c->p, 0, len)) {
		c->bad = true;
		return NULL;
	}
	s = xstrndup(c->p, len);
	c->p += len;
	c->len -= len;
	return s;
}

/* A list's count is believed only as far as the remaining bytes could hold it. */
static uint32_t read_count(struct cursor *c)
{
	uint64_t n = read_le(c, 4);

	if (c->bad || n > c->len / 4) {
		c->bad = true;
		return 0;
	}
	return (uint32_t)n;
}

static const char **read_strs(struct cursor *c)
{
	uint32_t n = read_count(c);
	const char **list = xnew_n(const char *, (size_t)n + 1);

	for (uint32_t i = 0; i < n && !c->bad; i++)
		list[i] = read_str(c);
	return list;
}

static struct err *cursor_end(const struct cursor *c, const char *what)
{
	if (c->bad || c->len)
		return err_new(ERR_MALFORMED,
			       "the %s frame is too short or too long for its fields", what);
	return NULL;
}

struct err *wire_start_read(const struct wire_frame *f, struct wire_start *ret)
{
	struct cursor c = { f->payload, f->len, false };
	struct wire_start s = { 0 };
	struct err *e;

	s.argv = read_strs(&c);
	s.env = read_strs(&c);
	s.cwd = read_str(&c);
	s.uid = (uint32_t)read_le(&c, 4);
	s.gid = (uint32_t)read_le(&c, 4);
	s.n_groups = read_count(&c);
	s.groups = xnew_n(uint32_t, (size_t)s.n_groups + 1);
	for (uint32_t i = 0; i < s.n_groups; i++)
		s.groups[i] = (uint32_t)read_le(&c, 4);
	s.flags = (uint32_t)read_le(&c, 4);
	s.cols = (uint16_t)read_le(&c, 2);
	s.rows = (uint16_t)read_le(&c, 2);
	s.runtime_port = (uint16_t)read_le(&c, 2);
	s.keep_caps = read_le(&c, 8);
	s.nofile = (uint32_t)read_le(&c, 4);
	if (!c.bad && c.len)
		s.message_path = read_str(&c);
	if (s.message_path && !*s.message_path)
		c.bad = true;
	e = cursor_end(&c, "start");
	if (e) {
		wire_start_done(&s);
		return e;
	}
	*ret = s;
	return NULL;
}

static void strs_free(const char **list)
{
	for (const char **s = list; s && *s; s++)
		free((char *)*s);
	free(list);
}

void wire_start_done(struct wire_start *s)
{
	strs_free(s->argv);
	strs_free(s->env);
	free((char *)s->cwd);
	free((char *)s->message_path);
	free(s->groups);
	*s = (struct wire_start){ 0 };
}

struct err *wire_u32s_read(const struct wire_frame *f, uint32_t *v, unsigned n)
{
	if (f->len != 4 * (size_t)n)
		return err_new(ERR_MALFORMED, "expected %u numbers of 32 bits, found %zu bytes", n,
			       f->len);
	for (unsigned i = 0; i < n; i++)
		v[i] = (uint32_t)get_le(f->payload + 4 * (size_t)i, 4);
	return NULL;
}

struct err *wire_u16s_read(const struct wire_frame *f, uint16_t *v, unsigned n)
{
	if (f->len != 2 * (size_t)n)
		return err_new(ERR_MALFORMED, "expected %u numbers of 16 bits, found %zu bytes", n,
			       f->len);
	for (unsigned i = 0; i < n; i++)
		v[i] = (uint16_t)get_le(f->payload + 2 * (size_t)i, 2);
	return NULL;
}

struct err *wire_failed_read(const struct wire_frame *f, int *ret_errno, char **ret_text)
{
	struct cursor c = { f->payload, f->len, false };
	int errnum = (int)read_le(&c, 4);
	autofree char *text = read_str(&c);
	struct err *e = cursor_end(&c, "failure");

	if (!e && strlen(text) > WIRE_TEXT_MAX)
		e = err_new(ERR_MALFORMED, "the text of a failure has %zu bytes; %d at most",
			    strlen(text), WIRE_TEXT_MAX);
	if (e)
		return e;
	*ret_errno = errnum;
	*ret_text = take(text);
	return NULL;
}

/* What is left is the message. */
static struct span read_message(struct cursor *c)
{
	struct span text = { c->p, c->len };

	if (c->bad || c->len > WIRE_TEXT_MAX)
		c->bad = true;
	else
		c->len = 0;
	return text;
}

struct span wire_exited_message(const struct wire_frame *f)
{
	if (f->len <= EXITED_LEN)
		return (struct span){ "", 0 };
	return (struct span){ f->payload + EXITED_LEN, f->len - EXITED_LEN };
}

struct err *wire_exited_read(const struct wire_frame *f, uint32_t *code, uint32_t *signal,
			     bool *oom)
{
	struct cursor c = { f->payload, f->len, false };
	uint32_t got_code = (uint32_t)read_le(&c, 4);
	uint32_t got_signal = (uint32_t)read_le(&c, 4);
	bool got_oom = read_bool(&c);
	struct err *e;

	(void)read_message(&c);
	e = cursor_end(&c, "exit");
	if (e)
		return e;
	*code = got_code;
	*signal = got_signal;
	*oom = got_oom;
	return NULL;
}

struct err *wire_state_read(const struct wire_frame *f, struct wire_state *ret)
{
	struct cursor c = { f->payload, f->len, false };
	struct wire_state s = { 0 };
	struct err *e;

	s.started = read_bool(&c);
	s.exited = read_bool(&c);
	s.pid = (uint32_t)read_le(&c, 4);
	s.exit_code = (uint32_t)read_le(&c, 4);
	s.signal = (uint32_t)read_le(&c, 4);
	s.oom = read_bool(&c);
	s.exited_at_us = read_le(&c, 8);
	s.message = read_message(&c);
	e = cursor_end(&c, "state");
	if (e)
		return e;
	*ret = s;
	return NULL;
}
