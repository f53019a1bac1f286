/* SPDX-License-Identifier: Apache-2.0 */
#include "net/grpc.h"

#include <string.h>

#include "base/buf.h"
#include "base/macros.h"

enum {
	DIGITS_MAX = 8,
};

static const struct {
	char name;
	int64_t us, per_us; /* it is so many, or so many of them are one */
} units[] = {
	{ 'H', 3600ll * 1000 * 1000, 1 },
	{ 'M', 60ll * 1000 * 1000, 1 },
	{ 'S', 1000ll * 1000, 1 },
	{ 'm', 1000, 1 },
	{ 'u', 1, 1 },
	{ 'n', 1, 1000 },
};

bool grpc_timeout_read(const char *text, usec *ret)
{
	size_t len = strspn(text, "0123456789");
	int64_t n = 0;

	if (!len || len > DIGITS_MAX || !text[len] || text[len + 1])
		return false;
	for (size_t i = 0; i < len; i++)
		n = n * 10 + (text[i] - '0');
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (units[i].name == text[len]) {
			*ret = (n * units[i].us + units[i].per_us - 1) / units[i].per_us;
			return true;
		}
	return false;
}

void grpc_message_put(struct buf *out, const char *text)
{
	for (; *text; text++)
		if (*text >= ' ' && *text <= '~' && *text != '%')
			buf_add_char(out, *text);
		else
			buf_printf(out, "%%%02X", (unsigned char)*text);
}
