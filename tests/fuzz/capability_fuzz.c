/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/cay/approval.h"
#include "api/cay/capability.h"
#include "api/jsonpath.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Whatever two trees say, what they have in common is in both; and it is read as it was written. */
static void check_meet(const struct json *x, const struct json *y)
{
	autoptr(arena) a = arena_new();
	autoptr(json_doc) d = json_doc_new();
	struct capabilities p, q, both, again;
	autobuf path = { 0 }, why = { 0 };

	capabilities_read(x, a, &p);
	capabilities_read_ceiling(y, a, &q);
	assert(capabilities_contain(&p, &p, &path, &why));
	capabilities_meet(&p, &q, a, &both);
	assert(capabilities_contain(&p, &both, NULL, NULL));
	assert(capabilities_contain(&q, &both, NULL, NULL));
	capabilities_read_ceiling(capabilities_write(&both, d), a, &again);
	assert(capabilities_contain(&both, &again, NULL, NULL));
	assert(capabilities_contain(&again, &both, NULL, NULL));
	(void)capabilities_contain(&p, &q, &path, &why);
	assert(!capabilities_reach(&both, "a.example.org", 443, "GET", "/x") ||
	       capabilities_reach(&p, "a.example.org", 443, "GET", "/x"));
}

static void check_rules(const struct json *tree, const char *text)
{
	autoptr(arena) a = arena_new();
	const char *const argv[] = { "git", text, NULL };
	const struct deed deeds[] = { { .argv = argv }, { .path = text }, { .host = text }, { 0 } };
	struct approval_rules r;
	int which;

	approval_rules_read(tree, a, &r);
	for (size_t i = 0; i < sizeof(deeds) / sizeof(*deeds); i++) {
		assert(approval_rules_decide(&r, &deeds[i], &which) < VERDICT_MAX_);
		assert(which < (int)r.n_rules);
	}
}

static void check_patterns(const char *x, const char *y)
{
	bool contains = pattern_contains(x, y);

	assert(pattern_contains(x, x) && pattern_contains("*", x));
	assert(!contains || !pattern_matches(y, "a") || pattern_matches(x, "a"));
	assert(!host_matches(x, y) || host_matches("*", y));
	assert(!host_contains(x, y) || !host_matches(y, "a.b") || host_matches(x, "a.b"));
	(void)jsonpath_valid(x);
}

/* Two lines are two patterns; JSON is a list of two trees of capabilities and one of rules. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const struct json_limits limits = { .max_len = 64 * 1024 };
	autofree char *text = xstrndup((const char *)data, len);
	char *second = strchr(text, '\n');
	autoptr(json_doc) d = NULL;
	struct err *e;

	e = json_parse(text, strlen(text), &limits, &d);
	if (!e) {
		const struct json *root = json_root(d);

		check_meet(json_at(root, 0), json_at(root, 1));
		check_rules(json_at(root, 2), str_or(json_str(json_at(root, 3)), ""));
	}
	err_free(e);
	if (second && len < 4096) {
		*second++ = '\0';
		check_patterns(text, second);
		check_patterns(second, text);
	}
	return 0;
}
