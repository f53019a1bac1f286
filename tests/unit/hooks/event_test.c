/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/meta.h"
#include "base/mem.h"
#include "hooks/proof.h"
#include "json/json.h"
#include "test.h"

static struct json_doc *doc(const char *text)
{
	struct json_doc *d = NULL;

	works(json_parse(text, strlen(text), NULL, &d));
	return d;
}

static bool passes(const char *filters, const char *event)
{
	autoptr(json_doc) f = doc(filters);
	autoptr(json_doc) e = doc(event);
	const char *path = NULL;
	bool ok = event_passes(json_root(f), json_root(e), &path);

	eq_int(!path, ok);
	return ok;
}

TEST(all_filters_must_match)
{
	static const char both[] =
		"[{\"path\":\".a\",\"values\":[\"x\",\"y\"]},{\"path\":\".b.c\",\"values\":[\"1\",\"true\"]}]";

	is_true(passes("[]", "{}"));
	is_true(event_passes(NULL, NULL, NULL));
	is_true(passes(both, "{\"a\":\"y\",\"b\":{\"c\":1}}"));
	is_true(passes(both, "{\"a\":\"x\",\"b\":{\"c\":true}}"));
	is_false(passes(both, "{\"a\":\"x\",\"b\":{\"c\":2}}"));
	is_false(passes(both, "{\"a\":\"z\",\"b\":{\"c\":1}}"));
	is_false(passes(both, "{\"a\":\"x\"}"));
	is_false(passes(both, "{\"a\":[\"x\"],\"b\":{\"c\":1}}"));
	is_false(passes(both, "[]"));
	is_false(passes("[{\"path\":\".a\",\"values\":[\"null\"]}]", "{\"a\":null}"));
}

static void text_is(const char *event, const char *path, const char *want)
{
	autoptr(json_doc) d = doc(event);
	autofree char *text = event_at(json_root(d), path);

	eq_str(text, want);
}

TEST(a_key_is_a_text_a_number_or_a_truth)
{
	text_is("{\"a\":{\"b\":[{\"c\":\"x\"}]}}", ".a.b[0].c", "x");
	text_is("{\"a\":12}", ".a", "12");
	text_is("{\"a\":false}", ".a", "false");
	text_is("{\"a\":\"\"}", ".a", "");
	text_is("{\"a\":null}", ".a", NULL);
	text_is("{\"a\":{}}", ".a", NULL);
	text_is("{}", ".a", NULL);
}

/* Until the next. */
static const char *name(const char *ns, const char *trigger, const char *agent, const char *key)
{
	static char text[HOOK_SESSION_LEN + 1];

	event_session_name(&(struct event_session){ ns, trigger, agent, key }, text);
	is_false(meta_bad_dns_label(text));
	return text;
}

TEST(the_same_key_has_the_same_session)
{
	autofree char *first = xstrdup(name("team", "pulls", "bot", "12"));

	is_true(!strncmp(first, "pulls-", 6) && strlen(first) == 6 + 20);
	eq_str(name("team", "pulls", "bot", "12"), first);
	is_true(strcmp(name("team", "pulls", "bot", "13"), first));
	is_true(strcmp(name("team", "pulls", "other", "12"), first));
	is_true(strcmp(name("other", "pulls", "bot", "12"), first));
	is_true(strcmp(name("team", "pull", "sbot", "12"), first));
	is_true(strcmp(name("team", "pulls", "bot1", "2"), first));
}

TEST(a_name_of_a_session_is_a_label_however_long_its_trigger)
{
	char trigger[254];

	memset(trigger, 'a', sizeof(trigger) - 1);
	trigger[253] = '\0';
	trigger[41] = '.';
	eq_int(strlen(name("team", trigger, "bot", "key")), HOOK_SESSION_LEN);
	(void)name("team", "a.b", "bot", "");
}
