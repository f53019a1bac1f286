/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/cay/approval.h"
#include "base/arena.h"
#include "base/str.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void read_deed(const struct json *tree, struct arena *a, struct deed *ret)
{
	const struct json *list = json_get(tree, "argv");
	const char **argv = arena_new_n(a, const char *, json_len(list) + 1);
	size_t n = 0;

	json_each(it, json_is(list, JSON_ARR) ? list : NULL)
		if (json_is(it.val, JSON_STR))
			argv[n++] = json_str(it.val);
	*ret = (struct deed){ .argv = json_is(list, JSON_ARR) ? argv : NULL,
			      .path = json_get_str(tree, "path"),
			      .host = json_get_str(tree, "host"),
			      .tool = json_get_str(tree, "tool") };
}

static bool same_argv(const char *const *x, const char *const *y)
{
	for (; *x && *y; x++, y++)
		if (!str_eq(*x, *y))
			return false;
	return !*x && !*y;
}

/* What "always" adds for x allows x, and y only if it is the same in all that the rule names. */
static void check_always(const struct deed *x, const struct deed *y, struct arena *a)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *root = json_obj(d), *rule = approval_rule_for(x, d);
	struct approval_rules r;

	if (!rule)
		return;
	json_set_root(d, root);
	json_set_str(d, root, "default", "Deny");
	json_push(d, json_need_arr(d, root, "rules"), rule);
	approval_rules_read(root, a, &r);
	assert(approval_rules_decide(&r, x, NULL) == VERDICT_ALLOW);
	if (approval_rules_decide(&r, y, NULL) != VERDICT_ALLOW)
		return;
	assert(!x->tool || str_eq(x->tool, y->tool));
	assert(!x->path || str_eq(x->path, y->path));
	assert(x->path || !x->argv || !*x->argv || (y->argv && same_argv(x->argv, y->argv)));
}

/* JSON: a list of rules and two deeds. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const struct json_limits limits = { .max_len = 64 * 1024 };
	autoptr(json_doc) d = NULL;
	autoptr(err) e = json_parse((const char *)data, len, &limits, &d);
	autoptr(arena) a = arena_new();
	struct approval_rules r;
	struct deed deeds[2];
	int which;

	if (e)
		return 0;
	approval_rules_read(json_at(json_root(d), 0), a, &r);
	for (size_t i = 0; i < 2; i++) {
		read_deed(json_at(json_root(d), i + 1), a, &deeds[i]);
		assert(approval_rules_decide(&r, &deeds[i], &which) < VERDICT_MAX_);
		assert(which >= -1 && which < (int)r.n_rules);
		assert(which >= 0 || approval_rules_decide(&r, &deeds[i], NULL) == r.otherwise);
	}
	check_always(&deeds[0], &deeds[1], a);
	check_always(&deeds[1], &deeds[0], a);
	return 0;
}
