/* SPDX-License-Identifier: Apache-2.0 */
#include "api/encode.h"

#include "api_test.h"
#include "base/buf.h"
#include "full.h"
#include "kinds.h"

static void goes_round(const struct type *t, const char *api_version, const char *kind)
{
	const struct encode_name name = { api_version, kind };
	struct decode_input in = { .media = DECODE_TREE };
	autoptr(json_doc) want = NULL;
	autoptr(json_doc) have = NULL;
	autobuf out = { 0 };

	in.tree = full_object(t, api_version, kind);
	works(schema_decode(t, &in, NULL, &want));
	encode_object(&name, json_root(want), t, &out);
	in = (struct decode_input){ DECODE_PROTOBUF, buf_head(&out), out.len, NULL };
	works(schema_decode(t, &in, NULL, &have));
	if (json_equal(json_root(have), json_root(want)))
		return;
	autofree char *was = json_to_text(json_root(want)), *is = json_to_text(json_root(have));
	print_error("%s\nhave %s\nwant %s\n", kind, is, was);
	fail();
}

TEST(every_member_of_every_built_in_kind_goes_round)
{
	const struct kind *const *all;
	size_t n, with = 0;

	all = kinds_all(test_kinds(), &n);
	for (size_t i = 0; i < n; i++) {
		if (!encode_has_protobuf(all[i]->type))
			continue;
		goes_round(all[i]->type, kind_api_version(all[i]), all[i]->kind);
		with++;
	}
	eq_int(with, 33);
}

TEST(bodies_that_are_no_kinds_go_round)
{
	goes_round(body_scale, "autoscaling/v1", "Scale");
	goes_round(body_token_request, "authentication.k8s.io/v1", "TokenRequest");
	goes_round(body_eviction, "policy/v1", "Eviction");
	goes_round(body_token_review, "authentication.k8s.io/v1", "TokenReview");
	goes_round(body_access_review, "authorization.k8s.io/v1", "SubjectAccessReview");
	goes_round(body_self_review, "authentication.k8s.io/v1", "SelfSubjectReview");
	goes_round(body_self_access_review, "authorization.k8s.io/v1", "SelfSubjectAccessReview");
	goes_round(body_self_rules_review, "authorization.k8s.io/v1", "SelfSubjectRulesReview");
	goes_round(encode_status, "v1", "Status");
}

/* Go writes what is not behind a pointer even when there is nothing in it. */
TEST(empty_members_are_written_as_go_writes_them)
{
	static const char want[] =
		"k8s\0\x0a\x10\x0a\x02v1\x12\x0a"
		"Namespace2\x12\x18\x0a\x10\x0a\x00\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00\x42\x00"
		"\x12\x00\x1a\x02\x0a\x00\x1a\x00\x22\x00";
	const struct encode_name name = { "v1", "Namespace2" };
	autobuf out = { 0 };

	encode_object(&name, NULL, kind_named("Namespace")->type, &out);
	eq_int(out.len, sizeof(want) - 1);
	is_true(!memcmp(buf_head(&out), want, out.len));
}

TEST(maps_are_sorted_by_key)
{
	const struct kind *k = kind_named("ConfigMap");
	autoptr(json_doc) d = doc("{'data':{'b':'2','c':'3','a':'1'}}");
	static const char want[] = "\x12\x06\x0a\x01"
				   "a\x12\x01"
				   "1\x12\x06\x0a\x01"
				   "b\x12\x01"
				   "2\x12\x06\x0a\x01"
				   "c\x12\x01"
				   "3";
	autobuf out = { 0 };

	encode_message(json_root(d), k->type, &out);
	is_true(out.len > sizeof(want));
	is_true(!memcmp(buf_head(&out) + out.len - (sizeof(want) - 1), want, sizeof(want) - 1));
}

TEST(a_list_in_pieces_is_as_long_as_its_head_says)
{
	const struct kind *k = kind_named("Namespace");
	const struct encode_list l = { { "v1", "NamespaceList" }, 42, "next", 7 };
	autoptr(json_doc) d = doc("{'metadata':{'name':'a'}}");
	autobuf items = { 0 }, message = { 0 }, out = { 0 };
	static const char head[] = "k8s\0\x0a\x13\x0a\x02v1\x12\x0dNamespaceList\x12\x2b"
				   "\x0a\x0e\x0a\x00\x12\x02"
				   "42\x1a\x04next\x20\x07";

	encode_item(json_root(d), k->type, &items);
	encode_message(json_root(d), k->type, &message);
	eq_int(items.len, encode_item_len(message.len));
	encode_list_head(&l, items.len, &out);
	eq_int(out.len, sizeof(head) - 1);
	is_true(!memcmp(buf_head(&out), head, out.len));
	encode_list_tail(&out);
	eq_int(out.len, sizeof(head) - 1 + 4);
}

TEST(an_event_has_its_length_in_front)
{
	autobuf out = { 0 };

	buf_add_str(&out, "before");
	buf_add_str(&out, "object");
	encode_event("ADDED", 6, &out);
	eq_int(out.len, 6 + 4 + 7 + 4 + 6);
	is_true(!memcmp(buf_head(&out),
			"before\0\0\0\x11\x0a\x05"
			"ADDED\x12\x08\x0a\x06object",
			out.len));
}

TEST(lengths_beyond_one_byte_are_written)
{
	const struct kind *k = kind_named("ConfigMap");
	const struct encode_name name = { "v1", "ConfigMap" };
	autoptr(json_doc) d = doc("{'apiVersion':'v1','kind':'ConfigMap','metadata':{}}");
	autoptr(json_doc) have = NULL;
	autofree char *text = xmalloc(70001);
	struct decode_input in;
	autobuf out = { 0 };

	memset(text, 'x', 70000);
	text[70000] = '\0';
	json_set_str(d, json_need_obj(d, json_root(d), "data"), "k", text);
	encode_object(&name, json_root(d), k->type, &out);
	in = (struct decode_input){ DECODE_PROTOBUF, buf_head(&out), out.len, NULL };
	works(schema_decode(k->type, &in, NULL, &have));
	is_true(json_equal(json_root(have), json_root(d)));
}
