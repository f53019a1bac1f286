/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"
#include "base/str.h"
#include "router/router_priv.h"
#include "test.h"

/* The first message of a TLS client. */
static void add_number(struct buf *b, size_t value, int bytes)
{
	while (bytes--)
		buf_add_char(b, (char)(value >> 8 * bytes));
}

struct message {
	const char *name;   /* NULL: no extension */
	unsigned twice;     /* the extension, or the name in it */
	unsigned name_type; /* 0: a host */
	int list_off;       /* how wrong the length of the list is */
	int extensions_off; /* and that of all extensions */
	size_t filler;      /* an extension of so many bytes before it */
	bool no_extensions; /* not even their length */
	bool tail;          /* a byte after them */
};

static void add_name_extension(struct buf *b, const struct message *m)
{
	size_t entry = 3 + strlen(m->name), list = entry * (m->twice == 2 ? 2 : 1);

	add_number(b, 0, 2);
	add_number(b, list + 2, 2);
	add_number(b, list + (size_t)(ptrdiff_t)m->list_off, 2);
	for (size_t at = 0; at < list; at += entry) {
		add_number(b, m->name_type, 1);
		add_number(b, strlen(m->name), 2);
		buf_add_str(b, m->name);
	}
}

static void add_message(struct buf *b, const struct message *m)
{
	autobuf ext = { 0 }, body = { 0 };

	if (m->filler) {
		add_number(&ext, 21, 2);
		add_number(&ext, m->filler, 2);
		for (size_t i = 0; i < m->filler; i++)
			buf_add_char(&ext, 0);
	}
	for (unsigned i = 0; m->name && i < (m->twice == 1 ? 2u : 1u); i++)
		add_name_extension(&ext, m);
	add_number(&body, 0x0303, 2);
	for (int i = 0; i < 32; i++)
		buf_add_char(&body, 'r');
	add_number(&body, 0, 1);
	add_number(&body, 2, 2);
	add_number(&body, 0x1301, 2);
	add_number(&body, 1, 1);
	add_number(&body, 0, 1);
	if (!m->no_extensions) {
		add_number(&body, ext.len + (size_t)(ptrdiff_t)m->extensions_off, 2);
		if (ext.len)
			buf_add(&body, buf_head(&ext), ext.len);
	}
	if (m->tail)
		add_number(&body, 0, 1);
	add_number(b, 1, 1);
	add_number(b, body.len, 3);
	buf_add(b, buf_head(&body), body.len);
}

static void add_records(struct buf *b, const struct buf *message, size_t size)
{
	for (size_t at = 0; at < message->len; at += size) {
		size_t n = MIN(size, message->len - at);

		add_number(b, 22, 1);
		add_number(b, 0x0301, 2);
		add_number(b, n, 2);
		buf_add(b, buf_head(message) + at, n);
	}
}

static enum hello read_one(const struct message *m, size_t record, char ret[256])
{
	autobuf message = { 0 }, wire = { 0 };

	add_message(&message, m);
	add_records(&wire, &message, record);
	return hello_read(buf_head(&wire), wire.len, ret);
}

TEST(the_name_is_found_in_any_number_of_records)
{
	static const size_t sizes[] = { 1, 2, 3, 4, 7, 40, 16384 };
	char name[256];

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		eq_int(read_one(&(struct message){ .name = "80-Box.NS.x" }, sizes[i], name),
		       HELLO_NAMED);
		eq_str(name, "80-box.ns.x");
	}
}

TEST(a_part_of_the_message_is_waited_for)
{
	autobuf message = { 0 }, wire = { 0 };
	char name[256];

	add_message(&message, &(struct message){ .name = "box" });
	add_records(&wire, &message, 16);
	for (size_t n = 0; n < wire.len; n++)
		eq_int(hello_read(buf_head(&wire), n, name), HELLO_MORE);
	eq_int(hello_read(buf_head(&wire), wire.len, name), HELLO_NAMED);
	buf_add_char(&wire, 22); /* the next record: nothing was answered yet */
	eq_int(hello_read(buf_head(&wire), wire.len, name), HELLO_NAMED);
}

TEST(what_is_no_hello_or_no_name_is_refused)
{
	static const struct {
		struct message m;
		enum hello says;
	} rows[] = {
		{ { .name = "box" }, HELLO_NAMED },
		{ { 0 }, HELLO_NAMELESS },
		{ { .no_extensions = true }, HELLO_NAMELESS },
		{ { .name = "box", .filler = 500 }, HELLO_NAMED },
		{ { .name = "" }, HELLO_BAD },
		{ { .name = "a b" }, HELLO_BAD },
		{ { .name = "a_b" }, HELLO_BAD },
		{ { .name = "box\n" }, HELLO_BAD },
		{ { .name = "box", .twice = 1 }, HELLO_BAD },
		{ { .name = "box", .twice = 2 }, HELLO_BAD },
		{ { .name = "box", .name_type = 1 }, HELLO_BAD },
		{ { .name = "box", .list_off = 1 }, HELLO_BAD },
		{ { .name = "box", .list_off = -1 }, HELLO_BAD },
		{ { .name = "box", .extensions_off = 1 }, HELLO_BAD },
		{ { .name = "box", .extensions_off = -1 }, HELLO_BAD },
		{ { .name = "box", .tail = true }, HELLO_BAD },
		{ { .name = "box", .filler = 17000 }, HELLO_BAD },
	};
	char name[256], longest[257];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(read_one(&rows[i].m, 4000, name), rows[i].says);
	memset(longest, 'a', 256);
	longest[256] = '\0';
	eq_int(read_one(&(struct message){ .name = longest }, 4000, name), HELLO_BAD);
	eq_int(read_one(&(struct message){ .name = longest + 1 }, 4000, name), HELLO_NAMED);
}

TEST(other_protocols_are_known_by_their_first_bytes)
{
	static const struct {
		const char *bytes;
		size_t len;
	} rows[] = {
		{ "GET / HTTP/1.1", 14 },
		{ "\x80\x2e\x01\x03", 4 },                     /* SSL 2 */
		{ "\x17\x03\x03\x00\x01\x00", 6 },             /* data before a handshake */
		{ "\x16\x02\x00\x00\x01\x01", 6 },             /* SSL 2 in a record */
		{ "\x16\x03\x01\x00\x00", 5 },                 /* nothing in it */
		{ "\x16\x03\x01\x40\x01", 5 },                 /* more than a record may hold */
		{ "\x16\x03\x01\x00\x04\x02\x00\x00\x00", 9 }, /* a ServerHello */
		{ "\x16\x03\x01\x00\x20\x01\x00\x40\x01", 9 }, /* a message that is too long */
	};
	char name[256];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(hello_read(rows[i].bytes, rows[i].len, name), HELLO_BAD);
}
