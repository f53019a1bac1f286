/* SPDX-License-Identifier: Apache-2.0 */
#include "api/selector.h"

#include "api_test.h"

TEST(label_selector_matches)
{
	static const struct {
		const char *selector, *labels;
		bool match;
	} rows[] = {
		{ "", "{}", true },
		{ "a=b", "{'a':'b'}", true },
		{ "a==b", "{'a':'b'}", true },
		{ "a=b", "{'a':'c'}", false },
		{ "a=b", "{}", false },
		{ "a!=b", "{}", true },
		{ "a!=b", "{'a':'b'}", false },
		{ "a", "{'a':''}", true },
		{ "a", "{}", false },
		{ "!a", "{}", true },
		{ "!a", "{'a':'x'}", false },
		{ "a in (b,c)", "{'a':'c'}", true },
		{ "a in(b, c)", "{'a':'d'}", false },
		{ "a notin (b,c)", "{}", true },
		{ "a notin (b,c)", "{'a':'b'}", false },
		{ "a=b,c in (d,e),!f", "{'a':'b','c':'e'}", true },
		{ "a=b , c", "{'a':'b','c':'e'}", true },
		{ "a=b,c", "{'a':'b'}", false },
		{ "c,a=b", "{'a':'b'}", false },
		{ "x.io/a=b", "{'x.io/a':'b'}", true },
		{ "n>3", "{'n':'4'}", true },
		{ "n>3", "{'n':'3'}", false },
		{ "n<3", "{'n':'2'}", true },
		{ "n<3", "{'n':'x'}", false },
		{ "a=", "{'a':''}", true },
		{ "a in ()", "{'a':''}", true },
		{ "in in (in)", "{'in':'in'}", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(selector) s = NULL;
		autoptr(json_doc) d = doc(rows[i].labels);

		works(selector_parse_labels(rows[i].selector, &s));
		eq_int(selector_matches_labels(s, json_root(d)), rows[i].match);
	}
	is_true(selector_matches_labels(NULL, NULL));
}

TEST(broken_label_selector_is_malformed)
{
	static const char *const texts[] = { "a b",      "a in b",  "a in (b", ",a",      "a,",
					     "a,,b",     "=b",      "a=b=c",   "a in b)", "!",
					     "a b=c/d",  "a=b c",   "a=-x",    "a/b/c=d", "a>x",
					     "a notinx", "a in (,", "(a)",     "!a=b" };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		autoptr(selector) s = NULL;

		fails(selector_parse_labels(texts[i], &s), ERR_MALFORMED);
	}
}

TEST(field_selector_matches)
{
	static const struct {
		const char *selector;
		bool match;
	} rows[] = {
		{ "metadata.name=x", true },
		{ "metadata.name==x", true },
		{ "metadata.name!=x", false },
		{ "metadata.name=x,status.phase!=Running", true },
		{ "spec.nodeName=", true },
		{ "spec.nodeName!=", false },
		{ "spec.on=true", true },
		{ "note=a\\,b\\=c", true },
		{ "", true },
	};
	autoptr(json_doc) d = doc("{'metadata':{'name':'x'},'status':{'phase':'Pending'},"
				  "'spec':{'on':true},'note':'a,b=c'}");

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(selector) s = NULL;

		works(selector_parse_fields(rows[i].selector, &s));
		eq_int(selector_matches_fields(s, json_root(d)), rows[i].match);
	}
}

TEST(selector_tells_what_it_wants)
{
	autoptr(selector) s = NULL;
	autoptr(selector) bad = NULL;

	works(selector_parse_fields("metadata.name=x,a!=b", &s));
	eq_str(selector_wants(s, "metadata.name"), "x");
	eq_str(selector_wants(s, "a"), NULL);
	eq_str(selector_wants(NULL, "a"), NULL);
	eq_str(selector_key(s, 1), "a");
	eq_str(selector_key(s, 2), NULL);
	fails(selector_parse_fields("metadata.name", &bad), ERR_MALFORMED);
	fails(selector_parse_fields("a=\\x", &bad), ERR_MALFORMED);
}
