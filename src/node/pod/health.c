/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <string.h>

#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/pod/health_priv.h"

/* Just enough of Protocol Buffers for two messages with one field each. */
enum {
	PREFIX_LEN = 5,
	VARINT_MAX = 10, /* bytes */
	WIRE_VARINT = 0,
	WIRE_64 = 1,
	WIRE_BYTES = 2,
	WIRE_32 = 5,
};

static void put_varint(struct buf *b, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		buf_add_char(b, (char)(v | 0x80));
	buf_add_char(b, (char)v);
}

void health_request(struct buf *b, const char *service)
{
	autobuf message = { 0 };
	uint32_t len;

	if (!str_empty(service)) {
		put_varint(&message, 1 << 3 | WIRE_BYTES);
		put_varint(&message, strlen(service));
		buf_add_str(&message, service);
	}
	len = htobe32((uint32_t)message.len);
	buf_add_char(b, 0);
	buf_add(b, &len, sizeof(len));
	if (message.len)
		buf_add(b, buf_head(&message), message.len);
}

static bool read_varint(struct span *s, uint64_t *ret)
{
	*ret = 0;
	for (unsigned i = 0; i < VARINT_MAX && i < s->len; i++) {
		unsigned char c = (unsigned char)s->p[i];

		*ret |= (uint64_t)(c & 0x7f) << (7 * i);
		if (c < 0x80) {
			*s = (struct span){ s->p + i + 1, s->len - i - 1 };
			return true;
		}
	}
	return false;
}

static bool skip(struct span *s, uint64_t len)
{
	if (len > s->len)
		return false;
	*s = (struct span){ s->p + len, s->len - len };
	return true;
}

/* Fields that we do not know are passed over, as Protocol Buffers wants it. */
static bool read_field(struct span *s, uint64_t *ret)
{
	uint64_t tag, v = 0;

	if (!read_varint(s, &tag) || !(tag >> 3))
		return false;
	switch (tag & 7) {
	case WIRE_VARINT:
		if (!read_varint(s, &v))
			return false;
		if (tag >> 3 == 1)
			*ret = v;
		return true;
	case WIRE_64:
		return skip(s, sizeof(uint64_t));
	case WIRE_BYTES:
		return read_varint(s, &v) && skip(s, v);
	case WIRE_32:
		return skip(s, sizeof(uint32_t));
	}
	return false;
}

struct err *health_response(const char *p, size_t len, uint64_t *ret)
{
	struct span s = { p, len };
	uint64_t status = HEALTH_UNKNOWN;
	uint32_t message_len;

	if (len < PREFIX_LEN)
		return err_new(ERR_MALFORMED, "the answer has no message");
	if (p[0])
		return err_new(ERR_MALFORMED, "the answer is compressed, which was not offered");
	memcpy(&message_len, p + 1, sizeof(message_len));
	(void)skip(&s, PREFIX_LEN);
	if (be32toh(message_len) != s.len)
		return err_new(ERR_MALFORMED, "the answer is not one message");
	while (s.len)
		if (!read_field(&s, &status))
			return err_new(ERR_MALFORMED, "the answer is not a HealthCheckResponse");
	*ret = status;
	return NULL;
}

const char *health_name(uint64_t status)
{
	static const char *const names[] = { "UNKNOWN", "SERVING", "NOT_SERVING",
					     "SERVICE_UNKNOWN" };

	return status < ARRAY_LEN(names) ? names[status] : "a status without a name";
}

const char *grpc_code_name(const char *code)
{
	static const char *const names[] = {
		"OK",
		"Canceled",
		"Unknown",
		"InvalidArgument",
		"DeadlineExceeded",
		"NotFound",
		"AlreadyExists",
		"PermissionDenied",
		"ResourceExhausted",
		"FailedPrecondition",
		"Aborted",
		"OutOfRange",
		"Unimplemented",
		"Internal",
		"Unavailable",
		"DataLoss",
		"Unauthenticated",
	};
	uint64_t n;
	struct err *e = parse_uint(code, ARRAY_LEN(names) - 1, &n);

	if (!e)
		return names[n];
	err_free(e);
	return "Unknown";
}
