/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "json/json.h"
#include "workload/workload_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* A query of code in a sandbox. What is accepted is within the limits, and in the token as it was
 * asked for. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	autofree char *query = xstrndup((const char *)data, len), *text = NULL;
	char id[] = "spiffe://d/ns/n/sandbox/s", name[] = "n";
	struct subject s = { .id = id, .ns = name, .name = name };
	autoptr(json_doc) d = NULL;
	const struct json *aud;
	char **list = NULL;
	struct err *e = audiences_read(query, &list);
	size_t n = 0;

	if (e) {
		assert(!list);
		err_free(e);
		return 0;
	}
	text = claims_write(
		&s, &(struct claims_spec){ .issuer = "https://i", .id = "1", .audiences = list });
	e = json_parse(text, strlen(text), NULL, &d);
	assert(!e);
	aud = json_get(json_root(d), "aud");
	json_each(it, aud) {
		assert(list[n] && !strcmp(json_str(it.val), list[n]));
		assert(*list[n] && strlen(list[n]) <= WORKLOAD_AUDIENCE_MAX);
		n++;
	}
	assert(n && n <= WORKLOAD_AUDIENCES_MAX && !list[n]);
	audiences_free(list);
	return 0;
}
