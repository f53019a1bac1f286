/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"

#include <string.h>

#include "api/object.h"
#include "api/proxy_name.h"
#include "api_test.h"
#include "kinds.h"

TEST(names_follow_their_rules)
{
	static const struct {
		const char *(*bad)(const char *s);
		const char *text;
		bool good;
	} rows[] = {
		{ meta_bad_dns_label, "a", true },
		{ meta_bad_dns_label, "a-1", true },
		{ meta_bad_dns_label, "", false },
		{ meta_bad_dns_label, "-a", false },
		{ meta_bad_dns_label, "a-", false },
		{ meta_bad_dns_label, "A", false },
		{ meta_bad_dns_label, "a.b", false },
		{ meta_bad_dns_label,
		  "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffggg", true },
		{ meta_bad_dns_label,
		  "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg", false },
		{ meta_bad_dns_subdomain, "a.b-c.1", true },
		{ meta_bad_dns_subdomain, "a..b", false },
		{ meta_bad_dns_subdomain, "a.", false },
		{ meta_bad_qualified_name, "a.b/C_d.e", true },
		{ meta_bad_qualified_name, "C_d", true },
		{ meta_bad_qualified_name, "/a", false },
		{ meta_bad_qualified_name, "a/", false },
		{ meta_bad_qualified_name, "a/b/c", false },
		{ meta_bad_qualified_name, "A.b/c", false },
		{ meta_bad_qualified_name, "a b", false },
		{ meta_bad_label_value, "", true },
		{ meta_bad_label_value, "A_b.c-1", true },
		{ meta_bad_label_value, "-a", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		eq_int(!rows[i].bad(rows[i].text), rows[i].good);
}

TEST(metadata_is_told_by_field)
{
	autoptr(json_doc) d =
		doc("{'name':'A','namespace':'n','labels':{'a b':'c'},'ownerReferences':["
		    "{'apiVersion':'v1','kind':'K','name':'a','uid':'1','controller':true},"
		    "{'apiVersion':'v1','kind':'K','name':'b','uid':'2','controller':true}]}");
	struct causes c = { 0 };

	meta_validate(json_root(d), KIND_NAMESPACED, NULL, &c);
	eq_int(c.n, 3);
	eq_str(c.list[0].field, "metadata.name");
	eq_str(c.list[1].field, "metadata.labels");
	eq_str(c.list[2].field, "metadata.ownerReferences");
	causes_done(&c);
	meta_validate(NULL, KIND_NAMESPACED, NULL, &c);
	eq_int(c.n, 2);
	eq_str(c.list[0].message, "Required value: name or generateName is required");
	causes_done(&c);
}

TEST(controller_ref_says_who_owns)
{
	autoptr(object) o =
		object_new(kind_named("Sandbox"), doc("{'metadata':{'name':'s','uid':'u'}}"));
	autoptr(json_doc) d = json_doc_new();

	eq_json(meta_controller_ref(d, o),
		"{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox','name':'s','uid':'u',"
		"'controller':true,'blockOwnerDeletion':true}");
}

TEST(condition_time_moves_only_with_status)
{
	autoptr(json_doc) d = doc("[]");
	struct json *list = json_root(d);
	struct condition c = { "Ready", "False", "A", "one", 1, NULL };

	conditions_upsert(d, list, &c, 1000000);
	eq_json(list, "[{'type':'Ready','status':'False','observedGeneration':1,"
		      "'lastTransitionTime':'1970-01-01T00:00:01Z','reason':'A','message':'one'}]");
	c.reason = "B";
	c.observed_generation = 2;
	conditions_upsert(d, list, &c, 2000000);
	eq_str(json_get_str(conditions_get(list, "Ready"), "reason"), "B");
	eq_str(json_get_str(conditions_get(list, "Ready"), "lastTransitionTime"),
	       "1970-01-01T00:00:01Z");
	c.status = "True";
	conditions_upsert(d, list, &c, 3000000);
	is_true(conditions_true(list, "Ready"));
	eq_str(json_get_str(conditions_get(list, "Ready"), "lastTransitionTime"),
	       "1970-01-01T00:00:03Z");
	c.status = "False";
	c.transition = "2020-01-01T00:00:00Z";
	conditions_upsert(d, list, &c, 4000000);
	eq_str(json_get_str(conditions_get(list, "Ready"), "lastTransitionTime"),
	       "2020-01-01T00:00:00Z");
	conditions_remove(list, "Ready");
	eq_int(json_len(list), 0);
}

TEST(name_hash_is_fnv1a)
{
	static const struct {
		const char *text, *hash;
	} rows[] = {
		{ "", "811c9dc5" },           { "a", "e40c292c" },
		{ "my-sandbox", "374de8f5" }, { "test-template", "69155462" },
		{ "test-pool", "59733166" },  { "sandbox-name", "ab179450" },
		{ "pool", "91dd7983" },       { "my-warm-pool", "034dafb4" },
	};
	char hash[9];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		name_hash(rows[i].text, hash);
		eq_str(hash, rows[i].hash);
	}
}

TEST(tree_hash_knows_no_order_of_members)
{
	autoptr(json_doc) a = doc("{'x':1,'y':{'p':[1,2],'q':true}}");
	autoptr(json_doc) b = doc("{'y':{'q':true,'p':[1.0,2]},'x':1}");
	autoptr(json_doc) c = doc("{'x':1,'y':{'p':[2,1],'q':true}}");
	char ha[9], hb[9], hc[9];

	name_hash_json(json_root(a), ha);
	name_hash_json(json_root(b), hb);
	name_hash_json(json_root(c), hc);
	eq_str(ha, hb);
	is_false(str_eq(ha, hc));
}

TEST(quantities_are_read_and_written_as_kubernetes_does)
{
	static const struct {
		const char *text;
		int64_t milli; /* -1: malformed */
		const char *canonical;
	} rows[] = {
		{ "'1500m'", 1500, "1500m" },
		{ "'2Gi'", 2147483648000, "2Gi" },
		{ "'1024Mi'", 1073741824000, "1Gi" },
		{ "'1.5Gi'", 1610612736000, "1536Mi" },
		{ "'1e3'", 1000000, "1e3" },
		{ "'1000'", 1000000, "1k" },
		{ "'1000m'", 1000, "1" },
		{ "0.5", 500, "500m" },
		{ "5", 5000, "5" },
		{ "'0'", 0, "0" },
		{ "'.5'", 500, "500m" },
		{ "'1n'", 1, "1n" },
		{ "'1E'", INT64_MAX, "1E" },
		{ "'100Ki'", 102400000, "100Ki" },
		{ "'1Ei'", INT64_MAX, "1Ei" },
		{ "''", -1, NULL },
		{ "'Gi'", -1, NULL },
		{ "'1K'", -1, NULL },
		{ "'1.2.3'", -1, NULL },
		{ "'1 Gi'", -1, NULL },
		{ "'0x10'", -1, NULL },
		{ "true", -1, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = doc(rows[i].text);
		int64_t milli = -1;

		err_free(quantity_parse_milli(json_root(d), &milli));
		eq_int(milli, rows[i].milli);
		eq_str(json_str(quantity_canonical(d, json_root(d))), rows[i].canonical);
		eq_int(quantity_valid(json_root(d)), rows[i].milli >= 0);
	}
}

TEST(quantities_compare_by_value)
{
	autoptr(json_doc) d = doc("['1','1000m',1,'1Gi','1024Mi','2']");
	const struct json *v = json_root(d);

	is_true(quantity_equal(json_at(v, 0), json_at(v, 1)));
	is_true(quantity_equal(json_at(v, 1), json_at(v, 2)));
	is_true(quantity_equal(json_at(v, 3), json_at(v, 4)));
	is_false(quantity_equal(json_at(v, 0), json_at(v, 5)));
	is_false(quantity_equal(json_at(v, 0), NULL));
}

TEST(the_name_of_a_proxy_has_one_reading)
{
	static const struct {
		const char *text, *scheme, *name, *port; /* name NULL: it is none */
	} rows[] = {
		{ "pod", "", "pod", "" },
		{ "pod:80", "", "pod", "80" },
		{ "pod:", "", "pod", "" },
		{ "http:pod:80", "http", "pod", "80" },
		{ "https:pod:", "https", "pod", "" },
		{ ":pod:80", "", "pod", "80" },
		{ "ftp:pod:80" },
		{ "http:pod:80:1" },
		{ "::80" },
		{ ":80" },
		{ "" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *name = proxy_name_of(rows[i].text);
		struct proxy_name n;
		bool is = proxy_name_read(rows[i].text, &n);

		eq_int(is, !!rows[i].name);
		eq_str(name, is ? rows[i].name : rows[i].text);
		if (!is)
			continue;
		eq_int(n.scheme.len, strlen(rows[i].scheme));
		is_true(!n.scheme.len || span_eq(n.scheme, rows[i].scheme));
		eq_int(n.port.len, strlen(rows[i].port));
		is_true(!n.port.len || span_eq(n.port, rows[i].port));
	}
}
