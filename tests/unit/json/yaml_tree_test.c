/* SPDX-License-Identifier: Apache-2.0 */
#include "json/yaml_tree.h"

#include "base/buf.h"
#include "base/str.h"
#include "test.h"

static void reads_as(const char *yaml, const char *json)
{
	autoptr(json_doc) d = NULL;
	autofree char *text = NULL;

	works(yaml_parse_one(yaml, strlen(yaml), &d));
	text = json_to_text(json_root(d));
	eq_str(text, json);
}

TEST(scalars_follow_the_core_schema)
{
	reads_as(
		"a: 1\nb: -2.5\nc: true\nd: ~\ne: '1'\nf: \"yes\"\ng: 1.2.3\nh: 0x1\ni:\n",
		"{\"a\":1,\"b\":-2.5,\"c\":true,\"d\":null,\"e\":\"1\",\"f\":\"yes\",\"g\":\"1.2.3\",\"h\":\"0x1\",\"i\":null}");
}

TEST(lists_maps_and_anchors)
{
	reads_as(
		"x: &a {n: [1, 2]}\ny: *a\nz:\n- p: q\n  r: s\n-\n  - t\n",
		"{\"x\":{\"n\":[1,2]},\"y\":{\"n\":[1,2]},\"z\":[{\"p\":\"q\",\"r\":\"s\"},[\"t\"]]}");
}

TEST(duplicate_keys_and_nonsense_are_rejected)
{
	static const char *const rows[] = { "a: 1\na: 2\n", "a: [1\n", "{a: 1}: 2\n",
					    "a: *nowhere\n", "\ta: 1\n" };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = NULL;

		fails(yaml_parse_one(rows[i], strlen(rows[i]), &d), ERR_MALFORMED);
	}
}

TEST(nested_anchors_cannot_grow_without_limit)
{
	autobuf text = { 0 };
	autoptr(json_doc) d = NULL;

	buf_add_str(&text, "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
	for (int i = 1; i < 9; i++) {
		buf_printf(&text, "a%d: &a%d [", i, i);
		for (int j = 0; j < 10; j++)
			buf_printf(&text, "%s*a%d", j ? ", " : "", i - 1);
		buf_add_str(&text, "]\n");
	}
	fails(yaml_parse_one(buf_head(&text), text.len, &d), ERR_TOO_LARGE);
}

TEST(documents_are_split_and_empty_ones_left_out)
{
	autoptr(json_doc) d = NULL;
	const char *text = "---\na: 1\n---\n---\nb: 2\n";

	works(yaml_parse_all(text, strlen(text), &d));
	eq_int(json_len(json_root(d)), 2);
	fails(yaml_parse_one(text, strlen(text), &(struct json_doc *){ NULL }), ERR_MALFORMED);
}

TEST(what_is_written_reads_back_the_same)
{
	static const char *const rows[] = {
		"{\"a\":\"\",\"b\":\"true\",\"c\":\"1\",\"d\":\"x: y\",\"e\":\"- z\",\"f\":\"line\\nline\",\"g\":[],\"h\":{},\"i\":[[1,[2]],{\"j\":null}]}",
		"{\"apiVersion\":\"v1\",\"items\":[{\"k\":{\"l\":[\"m\",\"#n\"]},\"o\":1.5}],\"no\":\"off\",\"~\":\"~\"}",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = NULL;
		autoptr(json_doc) back = NULL;
		autobuf out = { 0 };

		works(json_parse(rows[i], strlen(rows[i]), NULL, &d));
		yaml_write(json_root(d), &out);
		works(yaml_parse_one(buf_head(&out), out.len, &back));
		is_true(json_equal(json_root(d), json_root(back)));
	}
}

TEST(aliases_of_a_long_text_are_limited)
{
	autobuf text = { 0 };
	autoptr(json_doc) d = NULL;

	buf_add_str(&text, "- &a '");
	for (int i = 0; i < 1 << 20; i++)
		buf_add_char(&text, 'x');
	buf_add_str(&text, "'\n");
	for (int i = 0; i < 20; i++)
		buf_add_str(&text, "- *a\n");
	fails(yaml_parse_one(buf_head(&text), text.len, &d), ERR_TOO_LARGE);
}
