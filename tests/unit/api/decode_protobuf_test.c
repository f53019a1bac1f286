/* SPDX-License-Identifier: Apache-2.0 */
#include "api/encode.h"
#include "api_test.h"
#include "base/buf.h"
#include "kinds.h"

/* A ConfigMap as kubectl sends it: name c1, one label, data k=v and e="", binaryData. */
static const unsigned char config[] = {
	0x6b, 0x38, 0x73, 0x00, 0x0a, 0x0f, 0x0a, 0x02, 0x76, 0x31, 0x12, 0x09, 0x43, 0x6f, 0x6e,
	0x66, 0x69, 0x67, 0x4d, 0x61, 0x70, 0x12, 0x3d, 0x0a, 0x21, 0x0a, 0x02, 0x63, 0x31, 0x12,
	0x00, 0x1a, 0x07, 0x64, 0x65, 0x66, 0x61, 0x75, 0x6c, 0x74, 0x22, 0x00, 0x2a, 0x00, 0x32,
	0x00, 0x38, 0x00, 0x42, 0x00, 0x5a, 0x06, 0x0a, 0x01, 0x61, 0x12, 0x01, 0x62, 0x12, 0x06,
	0x0a, 0x01, 0x6b, 0x12, 0x01, 0x76, 0x12, 0x05, 0x0a, 0x01, 0x65, 0x12, 0x00, 0x1a, 0x09,
	0x0a, 0x03, 0x62, 0x69, 0x6e, 0x12, 0x02, 0x00, 0xff, 0x1a, 0x00, 0x22, 0x00
};
/* An Event with a time and a count. */
static const unsigned char event[] = { 0x6b, 0x38, 0x73, 0x00, 0x0a, 0x0b, 0x0a, 0x02, 0x76, 0x31,
				       0x12, 0x05, 0x45, 0x76, 0x65, 0x6e, 0x74, 0x12, 0x11, 0x0a,
				       0x03, 0x0a, 0x01, 0x65, 0x32, 0x08, 0x08, 0x80, 0xe2, 0xcf,
				       0xaa, 0x06, 0x10, 0x05, 0x40, 0x03, 0x1a, 0x00, 0x22, 0x00 };

/* A Pod as a typed Go client sends it, with structs that are inlined in JSON: the source of a
 * volume, the handler of a probe, the name of a Secret. */
static const unsigned char pod[] = {
	0x6b, 0x38, 0x73, 0x00, 0x0a, 0x09, 0x0a, 0x02, 0x76, 0x31, 0x12, 0x03, 0x50, 0x6f, 0x64,
	0x12, 0xba, 0x01, 0x0a, 0x2d, 0x0a, 0x01, 0x70, 0x12, 0x00, 0x1a, 0x00, 0x22, 0x00, 0x2a,
	0x00, 0x32, 0x00, 0x38, 0x00, 0x42, 0x00, 0x8a, 0x01, 0x19, 0x0a, 0x01, 0x6d, 0x12, 0x00,
	0x1a, 0x00, 0x32, 0x00, 0x3a, 0x0c, 0x0a, 0x0a, 0x7b, 0x22, 0x66, 0x3a, 0x61, 0x22, 0x3a,
	0x7b, 0x7d, 0x7d, 0x42, 0x00, 0x12, 0x74, 0x0a, 0x09, 0x0a, 0x01, 0x76, 0x12, 0x04, 0x12,
	0x02, 0x0a, 0x00, 0x12, 0x4b, 0x0a, 0x01, 0x63, 0x12, 0x01, 0x69, 0x2a, 0x00, 0x3a, 0x11,
	0x0a, 0x01, 0x45, 0x12, 0x00, 0x1a, 0x0a, 0x22, 0x08, 0x0a, 0x03, 0x0a, 0x01, 0x73, 0x12,
	0x01, 0x6b, 0x42, 0x00, 0x52, 0x1c, 0x0a, 0x10, 0x12, 0x0e, 0x0a, 0x00, 0x12, 0x06, 0x08,
	0x00, 0x10, 0x50, 0x1a, 0x00, 0x1a, 0x00, 0x22, 0x00, 0x10, 0x00, 0x18, 0x00, 0x20, 0x05,
	0x28, 0x00, 0x30, 0x00, 0x6a, 0x00, 0x72, 0x00, 0x80, 0x01, 0x00, 0x88, 0x01, 0x00, 0x90,
	0x01, 0x00, 0xa2, 0x01, 0x00, 0x1a, 0x00, 0x32, 0x00, 0x42, 0x00, 0x4a, 0x00, 0x52, 0x00,
	0x58, 0x00, 0x60, 0x00, 0x68, 0x00, 0x82, 0x01, 0x00, 0x8a, 0x01, 0x00, 0x9a, 0x01, 0x00,
	0xc2, 0x01, 0x00, 0x1a, 0x13, 0x0a, 0x00, 0x1a, 0x00, 0x22, 0x00, 0x2a, 0x00, 0x32, 0x00,
	0x4a, 0x00, 0x5a, 0x00, 0x72, 0x00, 0x88, 0x01, 0x00, 0x1a, 0x00, 0x22, 0x00
};

static struct err *read_as(const unsigned char *p, size_t len, const struct kind *k,
			   struct json_doc **ret)
{
	const struct decode_input in = { DECODE_PROTOBUF, (const char *)p, len, NULL };

	return schema_decode(k->type, &in, NULL, ret);
}

TEST(protobuf_becomes_the_same_tree_as_json)
{
	autoptr(json_doc) d = NULL;
	autoptr(json_doc) want =
		doc("{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'c1','namespace':"
		    "'default','labels':{'a':'b'}},'data':{'k':'v','e':''},"
		    "'binaryData':{'bin':'AP8='}}");

	works(read_as(config, sizeof(config), kind_named("ConfigMap"), &d));
	is_true(json_equal(json_root(d), json_root(want)));
}

TEST(protobuf_times_become_text)
{
	autoptr(json_doc) d = NULL;

	works(read_as(event, sizeof(event), kind_named("Event"), &d));
	eq_str(json_get_str(json_root(d), "firstTimestamp"), "2023-11-14T22:13:20Z");
	eq_int(json_get_int(json_root(d), "count", 0), 3);
}

TEST(torn_protobuf_is_malformed)
{
	for (size_t len = 0; len < sizeof(config); len++) {
		autoptr(json_doc) d = NULL;
		struct err *e = read_as(config, len, kind_named("ConfigMap"), &d);

		/* A cut between members leaves a whole message: what was there is read. */
		is_true(!e || err_is(e, ERR_MALFORMED));
		err_free(e);
	}
}

/* Reads body as the message of a ConfigMap in its envelope. */
static struct err *read_config(const char *body, size_t len, struct json_doc **ret)
{
	static const char head[] = "k8s\0\x0a\x0f\x0a\x02v1\x12\x09"
				   "ConfigMap\x12";
	char text[256];
	size_t n = sizeof(head) - 1;

	memcpy(text, head, n);
	text[n++] = (char)len;
	memcpy(text + n, body, len);
	return read_as((const unsigned char *)text, n + len, kind_named("ConfigMap"), ret);
}
#define READ_CONFIG(body, ret) read_config(body, sizeof(body) - 1, ret)

TEST(unknown_numbers_are_skipped_as_go_does)
{
	autoptr(json_doc) d = NULL;

	/* 99: a number, a fixed one of 8 and of 4 bytes, a text, and a group that has another
	 * inside it */
	works(READ_CONFIG("\x98\x06\x01\x99\x06"
			  "12345678\x9d\x06"
			  "1234\x9a\x06\x02hi"
			  "\x9b\x06\x08\x01\x13\x14\x9c\x06"
			  "\x12\x06\x0a\x01k\x12\x01v",
			  &d));
	eq_json(json_root(d), "{'apiVersion':'v1','kind':'ConfigMap','data':{'k':'v'}}");
}

TEST(a_known_number_with_another_wire_type_is_malformed)
{
	static const struct {
		const char *body;
		size_t len;
	} rows[] = {
#define ROW(s) { s, sizeof(s) - 1 }
		ROW("\x10\x01"),           /* data: a number */
		ROW("\x20\x01\x22\x02hi"), /* immutable: a text */
		ROW("\x21"
		    "12345678"),                     /* immutable: a fixed number */
		ROW("\x23\x24"),                     /* immutable: a group */
		ROW("\x24"),                         /* the end of a group that never began */
		ROW("\x9b\x06\x08\x01"),             /* a group without an end */
		ROW("\x12\x02\x08\x01"),             /* a key that is a number */
		ROW("\x12\x02\x10\x01"),             /* a value that is a number */
		ROW("\x02\x00"),                     /* number 0 */
		ROW("\x80\x80\x80\x80\x80\x01\x01"), /* a number beyond 32 bits */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = NULL;

		fails(read_config(rows[i].body, rows[i].len, &d), ERR_MALFORMED);
	}
}

TEST(what_is_given_twice_is_merged_or_the_last_counts)
{
	autoptr(json_doc) d = NULL;

	/* metadata { name a }, metadata { namespace n }, data b=1 a=1 b=2, immutable twice */
	works(READ_CONFIG("\x0a\x03\x0a\x01"
			  "a\x0a\x03\x1a\x01n"
			  "\x12\x06\x0a\x01"
			  "b\x12\x01"
			  "1\x12\x06\x0a\x01"
			  "a\x12\x01"
			  "1\x12\x06\x0a\x01"
			  "b\x12\x01"
			  "2\x20\x00\x20\x01",
			  &d));
	eq_json(json_root(d),
		"{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'a','namespace':'n'},"
		"'data':{'b':'2','a':'1'},'immutable':true}");
}

TEST(numbers_of_a_list_may_be_packed)
{
	/* A Pod with spec.securityContext.supplementalGroups: 1 and 300 packed, then 7. */
	static const char packed[] = "k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod"
				     "\x12\x0b\x12\x09\x72\x07\x22\x03\x01\xac\x02\x20\x07";
	autoptr(json_doc) d = NULL;

	works(read_as((const unsigned char *)packed, sizeof(packed) - 1, kind_named("Pod"), &d));
	eq_json(json_at_path(json_root(d), "spec.securityContext.supplementalGroups"), "[1,300,7]");
}

TEST(custom_resources_have_no_protobuf)
{
	autoptr(json_doc) d = NULL;

	fails(read_as(config, sizeof(config), kind_named("Sandbox"), &d), ERR_MEDIA_TYPE);
	fails(read_as(config, sizeof(config), kind_named("Gateway"), &d), ERR_MEDIA_TYPE);
}

/* Every entry of a map and every message counts, however little there is in it. */
TEST(more_values_than_the_limit_are_refused)
{
	enum {
		N = 100001,
	};
	autofree unsigned char *body = xmalloc(2 * N + 32);
	static const char head[] = "k8s\0\x12\xc2\x9a\x0c"; /* 2 * N bytes follow */
	autoptr(json_doc) d = NULL;

	memcpy(body, head, sizeof(head) - 1);
	for (size_t i = 0; i < N; i++) {
		body[sizeof(head) - 1 + 2 * i] = 0x12;
		body[sizeof(head) + 2 * i] = 0;
	}
	fails(read_as(body, sizeof(head) - 1 + 2 * (size_t)N, kind_named("ConfigMap"), &d),
	      ERR_TOO_LARGE);
}

TEST(what_json_inlines_is_a_message_of_its_own)
{
	autoptr(json_doc) d = NULL;

	works(read_as(pod, sizeof(pod), kind_named("Pod"), &d));
	eq_json(json_root(d),
		"{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p','managedFields':[{'manager':"
		"'m','fieldsV1':{'f:a':{}}}]},'spec':{'volumes':[{'name':'v','emptyDir':{}}],"
		"'containers':[{'name':'c','image':'i','env':[{'name':'E','valueFrom':{"
		"'secretKeyRef':{'name':'s','key':'k'}}}],'resources':{},'livenessProbe':{'httpGet':{"
		"'port':80},'periodSeconds':5}}]},'status':{}}");
}

/* The Pod above is from a Go client. */
TEST(what_go_wrote_is_written_again)
{
	const struct encode_name name = { "v1", "Pod" };
	autoptr(json_doc) d = NULL;
	autobuf out = { 0 };

	works(read_as(pod, sizeof(pod), kind_named("Pod"), &d));
	encode_object(&name, json_root(d), kind_named("Pod")->type, &out);
	eq_int(out.len, sizeof(pod));
	is_true(!memcmp(buf_head(&out), pod, out.len));
}
