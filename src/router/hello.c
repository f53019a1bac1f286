/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/str.h"
#include "router/router_priv.h"

/*
 * The first message of a TLS client, as far as the name of the server that it wants:
 *
 *   record     22, 3, minor, length[2], then a part of the message; it may come in several records
 *   message    1, length[3], version[2], random[32], session id, cipher suites, compressions,
 *              extensions
 *   extension  type[2], length[2]; of type 0: list length[2], then 0, length[2], name
 *
 * Nothing is taken for granted: every length must be exactly what surrounds it has room for.
 */
enum {
	RECORD_HEAD = 5,
	RECORD_HANDSHAKE = 22,
	RECORD_MAX = 16384,
	MESSAGE_HEAD = 4,
	MESSAGE_CLIENT_HELLO = 1,
	MESSAGE_MAX = 16384,
	RANDOM_LEN = 32,
	SESSION_MAX = 32,
	EXT_SERVER_NAME = 0,
	NAME_HOST = 0,
	NAME_MAX_LEN = 255,
};

struct cursor {
	const unsigned char *p;
	size_t len;
};

static bool skip(struct cursor *c, size_t n)
{
	if (c->len < n)
		return false;
	c->p += n;
	c->len -= n;
	return true;
}

/* A number of so many bytes. */
static bool number(struct cursor *c, size_t bytes, size_t *ret)
{
	const unsigned char *p = c->p;

	if (!skip(c, bytes))
		return false;
	*ret = 0;
	for (size_t i = 0; i < bytes; i++)
		*ret = *ret << 8 | p[i];
	return true;
}

/* What follows a length of so many bytes. */
static bool vector(struct cursor *c, size_t bytes, struct cursor *ret)
{
	size_t n;

	if (!number(c, bytes, &n))
		return false;
	*ret = (struct cursor){ c->p, n };
	return skip(c, n);
}

static bool take_name(struct cursor name, char ret[256])
{
	static const char fine[] = "abcdefghijklmnopqrstuvwxyz0123456789-.";

	if (!name.len || name.len > NAME_MAX_LEN)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		char c = (char)name.p[i];

		if (c >= 'A' && c <= 'Z')
			c = (char)(c | 0x20);
		if (!memchr(fine, c, sizeof(fine) - 1))
			return false;
		ret[i] = c;
	}
	ret[name.len] = '\0';
	return true;
}

static enum hello read_server_name(struct cursor ext, char ret[256])
{
	struct cursor list, name;
	size_t type;

	if (!vector(&ext, 2, &list) || ext.len)
		return HELLO_BAD;
	if (!number(&list, 1, &type) || type != NAME_HOST || !vector(&list, 2, &name) || list.len)
		return HELLO_BAD; /* there are no other types, and one name of each */
	return take_name(name, ret) ? HELLO_NAMED : HELLO_BAD;
}

static enum hello read_extensions(struct cursor all, char ret[256])
{
	enum hello found = HELLO_NAMELESS;

	while (all.len) {
		struct cursor ext;
		size_t type;

		if (!number(&all, 2, &type) || !vector(&all, 2, &ext))
			return HELLO_BAD;
		if (type != EXT_SERVER_NAME)
			continue;
		if (found != HELLO_NAMELESS)
			return HELLO_BAD;
		found = read_server_name(ext, ret);
		if (found == HELLO_BAD)
			return found;
	}
	return found;
}

static enum hello read_message(struct cursor m, char ret[256])
{
	struct cursor session, suites, compressions, extensions;
	size_t version;

	if (!number(&m, 2, &version) || version >> 8 != 3 || !skip(&m, RANDOM_LEN) ||
	    !vector(&m, 1, &session) || session.len > SESSION_MAX || !vector(&m, 2, &suites) ||
	    suites.len < 2 || suites.len % 2 || !vector(&m, 1, &compressions) || !compressions.len)
		return HELLO_BAD;
	if (!m.len)
		return HELLO_NAMELESS;
	if (!vector(&m, 2, &extensions) || m.len)
		return HELLO_BAD;
	return read_extensions(extensions, ret);
}

/* One record's part of the message. HELLO_MORE: not all of it is there yet; HELLO_NAMED: it is. */
static enum hello take_record(struct cursor *in, struct cursor *ret)
{
	size_t type, version, len;

	if (in->len && in->p[0] != RECORD_HANDSHAKE)
		return HELLO_BAD;
	if (in->len < RECORD_HEAD)
		return HELLO_MORE;
	if (!number(in, 1, &type) || !number(in, 2, &version) || !number(in, 2, &len) ||
	    version >> 8 != 3 || !len || len > RECORD_MAX)
		return HELLO_BAD;
	*ret = (struct cursor){ in->p, MIN(len, in->len) };
	return skip(in, len) ? HELLO_NAMED : HELLO_MORE;
}

/* HELLO_NAMED once all of it is there: *ret is what follows its head. */
static enum hello message_whole(const struct buf *b, struct cursor *ret)
{
	struct cursor c = { (const unsigned char *)buf_head(b), b->len };
	size_t type, len;

	if (b->len && c.p[0] != MESSAGE_CLIENT_HELLO)
		return HELLO_BAD;
	if (b->len < MESSAGE_HEAD)
		return HELLO_MORE;
	if (!number(&c, 1, &type) || !number(&c, 3, &len) || len > MESSAGE_MAX)
		return HELLO_BAD;
	*ret = (struct cursor){ c.p, len };
	if (c.len > len)
		return HELLO_BAD; /* a client waits for an answer */
	return c.len == len ? HELLO_NAMED : HELLO_MORE;
}

enum hello hello_read(const void *data, size_t len, char ret[256])
{
	struct cursor in = { data, len }, message;
	enum hello record = HELLO_NAMED, whole;
	autobuf b = { 0 };

	while (record == HELLO_NAMED) {
		struct cursor part = { 0 };

		record = take_record(&in, &part);
		if (record == HELLO_BAD)
			return record;
		if (!part.len)
			continue; /* of the next record there is no byte yet */
		buf_add(&b, part.p, part.len);
		whole = message_whole(&b, &message);
		if (whole == HELLO_BAD)
			return whole;
		if (whole == HELLO_NAMED)
			return record == HELLO_NAMED ? read_message(message, ret) : HELLO_BAD;
	}
	return len >= HELLO_MAX ? HELLO_BAD : HELLO_MORE;
}
