/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/grant.h"

#include "base/arena.h"
#include "base/macros.h"
#include "base/str.h"
#include "json/json.h"
#include "test.h"

/* Grants are texts here; everything that they borrow from ends with the test. */
struct desk {
	struct arena *arena;
	struct json_doc *d;
};

static struct desk desk_new(void)
{
	return (struct desk){ arena_new(), json_doc_new() };
}

static void desk_done(struct desk *k)
{
	arena_free(k->arena);
	json_doc_free(k->d);
}

static struct err *try_read(struct desk *k, const char *text, struct identity_grant *ret)
{
	struct json_doc *own = NULL;
	struct err *e = json_parse(text, strlen(text), NULL, &own);

	if (e)
		return e;
	return identity_grant_read(json_move(k->d, own, json_root(own)), NULL, k->arena, ret);
}

static struct identity_grant grant(struct desk *k, const char *text)
{
	struct identity_grant g;

	works(try_read(k, text, &g));
	return g;
}

static void eq_grant(const struct identity_grant *g, const char *text)
{
	autoptr(json_doc) d = json_doc_new();
	autofree char *got = json_to_text(identity_grant_write(g, d));

	eq_str(got, text);
}

TEST(a_grant_is_what_all_blocks_leave)
{
	static const struct {
		const char *x, *y, *both;
	} rows[] = {
		{ "{}", "{}", "{}" },
		{ "{\"rights\":[\"read\",\"exec\"]}", "{}", "{\"rights\":[\"exec\",\"read\"]}" },
		{ "{\"rights\":[\"read\",\"exec\"]}", "{\"rights\":[\"read\",\"lifecycle\"]}",
		  "{\"rights\":[\"read\"]}" },
		{ "{\"rights\":[\"read\"]}", "{\"rights\":[\"exec\"]}", "{\"rights\":[]}" },
		{ "{\"tools\":[\"git_*\"]}", "{\"tools\":[\"*\"]}", "{\"tools\":[\"git_*\"]}" },
		{ "{\"tools\":[]}", "{}", "{\"tools\":[]}" },
		{ "{\"credentials\":[\"a\",\"b\"]}", "{\"credentials\":[\"b\",\"c\"]}",
		  "{\"credentials\":[\"b\"]}" },
		{ "{\"egress\":[{\"host\":\"*.example.org\"}]}",
		  "{\"egress\":[{\"host\":\"a.example.org\"},{\"host\":\"b.org\"}]}",
		  "{\"egress\":[{\"host\":\"a.example.org\",\"ports\":[443]}]}" },
		{ "{\"egress\":[]}", "{}", "{\"egress\":[]}" },
		{ "{\"sandbox\":\"a\"}", "{}", "{\"sandbox\":\"a\"}" },
		{ "{\"sandbox\":\"a\"}", "{\"sandbox\":\"a\"}", "{\"sandbox\":\"a\"}" },
		{ "{\"sandbox\":\"a\"}", "{\"sandbox\":\"b\"}", "{\"sandbox\":\"\"}" },
		{ "{\"exp\":9}", "{\"exp\":7}", "{\"exp\":7}" },
		{ "{\"exp\":9}", "{}", "{\"exp\":9}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct desk k = desk_new();
		const struct identity_grant x = grant(&k, rows[i].x), y = grant(&k, rows[i].y);
		struct identity_grant both, again;

		identity_grant_meet(&x, &y, k.arena, &both);
		eq_grant(&both, rows[i].both);
		identity_grant_meet(&y, &x, k.arena, &again);
		is_true(identity_grant_contains(&x, &both) && identity_grant_contains(&y, &both));
		is_true(identity_grant_contains(&both, &again));
		desk_done(&k);
	}
}

TEST(a_grant_that_is_not_understood_is_refused)
{
	static const char *const rows[] = {
		"[]",
		"{\"right\":[]}",
		"{\"rights\":\"read\"}",
		"{\"rights\":[\"root\"]}",
		"{\"rights\":[1]}",
		"{\"tools\":[\"\"]}",
		"{\"tools\":{}}",
		"{\"egress\":[{}]}",
		"{\"egress\":[{\"host\":\"\"}]}",
		"{\"egress\":[{\"host\":\"a\",\"port\":[1]}]}",
		"{\"egress\":[{\"host\":\"a\",\"ports\":[0]}]}",
		"{\"egress\":[{\"host\":\"a\",\"ports\":[65536]}]}",
		"{\"egress\":[{\"host\":\"a\",\"ports\":[1.5]}]}",
		"{\"egress\":[{\"host\":\"a\",\"methods\":\"GET\"}]}",
		"{\"egress\":[\"a\"]}",
		"{\"sandbox\":1}",
		"{\"sandbox\":\"A/b\"}",
		"{\"exp\":\"1\"}",
		"{\"exp\":0}",
		"{\"exp\":1e300}",
		"{\"maxSandboxes\":1}",
	};
	struct desk k = desk_new();
	struct identity_grant g;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		fails(try_read(&k, rows[i], &g), ERR_INVALID);
	desk_done(&k);
}

TEST(a_grant_survives_being_a_group)
{
	struct desk k = desk_new();
	struct identity_grant g = grant(
		&k,
		"{\"rights\":[\"read\"],\"egress\":[{\"host\":\"*\",\"ports\":[80]}],\"tools\":[\"a*\"],"
		"\"sandbox\":\"box\",\"exp\":5}");
	const char *groups[] = { "other", NULL, NULL };
	struct identity_grant read;

	g.ns = "team";
	groups[1] = identity_grant_group(&g, k.arena);
	works(identity_grant_of(groups, k.arena, k.d, &read));
	is_true(identity_grant_contains(&g, &read) && identity_grant_contains(&read, &g));
	eq_str(read.ns, "team");
	is_true(identity_grant_narrows(&read) && identity_grant_limits_network(&read));
	groups[1] = NULL;
	works(identity_grant_of(groups, k.arena, k.d, &read));
	is_false(identity_grant_narrows(&read));
	desk_done(&k);
}

TEST(a_group_that_is_no_grant_allows_nothing)
{
	static const char *const rows[] = { "", "{", "[]", "{\"x\":1}", "{\"namespace\":\"A\"}" };
	struct desk k = desk_new();

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *group = xasprintf(IDENTITY_GRANT_GROUP "%s", rows[i]);
		const char *groups[] = { group, NULL };
		struct identity_grant g;

		fails(identity_grant_of(groups, k.arena, k.d, &g), ERR_INVALID);
	}
	desk_done(&k);
}

TEST(sandboxes_of_two_namespaces_are_not_one)
{
	struct desk k = desk_new();
	struct identity_grant x = grant(&k, "{\"sandbox\":\"box\"}"), y = x, both;

	x.ns = "a";
	y.ns = "b";
	identity_grant_meet(&x, &y, k.arena, &both);
	eq_str(both.sandbox, "");
	desk_done(&k);
}
