/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "mcp/mcp_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static struct err *read_pieces(struct entries *e, const char *text, size_t len, size_t piece)
{
	struct err *bad = NULL;

	for (size_t at = 0; at < len && !bad; at += piece)
		bad = entries_feed(e, text + at, MIN(piece, len - at));
	return bad ? bad : entries_end(e);
}

/* What a sandbox says is in a directory: the same in one piece and in small ones. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct entries whole = { .max = 4 }, pieces = { .max = 4 };
	struct err *a, *b;

	if (len > 4000) /* below the limit of a record, which only pieces meet */
		return 0;
	a = read_pieces(&whole, (const char *)data, len, len + 1);
	b = read_pieces(&pieces, (const char *)data, len, 3);
	assert(!a == !b);
	assert(a || (whole.total == pieces.total && whole.n == pieces.n));
	for (size_t i = 0; !a && i < whole.n; i++) {
		assert(!strcmp(whole.list[i].name, pieces.list[i].name));
		assert(!strchr(whole.list[i].name, '/'));
	}
	err_free(a);
	err_free(b);
	entries_done(&whole);
	entries_done(&pieces);
	return 0;
}
