/* SPDX-License-Identifier: Apache-2.0 */
#include "api/patch.h"

#include "api_test.h"
#include "base/buf.h"
#include "kinds.h"

struct row {
	const char *name, *before, *patch, *after; /* after NULL: refused */
};

static void run_rows(const struct row *rows, size_t n, enum patch_type how, const struct type *t)
{
	for (size_t i = 0; i < n; i++) {
		autoptr(json_doc) d = doc(rows[i].before);
		autoptr(json_doc) p = doc(rows[i].patch);
		autoptr(err) e = patch_apply(how, d, json_root(p), t);

		if (!rows[i].after != !!e) {
			print_error("%s: %s\n", rows[i].name, e ? err_text(e) : "worked");
			fail();
		}
		if (!e)
			eq_json(json_root(d), rows[i].after);
	}
}

TEST(patch_types_are_told_by_media_type)
{
	enum patch_type t;

	works(patch_type_of("application/merge-patch+json; charset=utf-8", &t));
	eq_int(t, PATCH_MERGE);
	works(patch_type_of("application/json-patch+json", &t));
	eq_int(t, PATCH_JSON);
	fails(patch_type_of("Application/JSON-Patch+json", &t), ERR_MEDIA_TYPE);
	works(patch_type_of(patch_media_type(PATCH_STRATEGIC), &t));
	eq_int(t, PATCH_STRATEGIC);
	fails(patch_type_of("application/json", &t), ERR_MEDIA_TYPE);
	fails(patch_type_of(NULL, &t), ERR_MEDIA_TYPE);
}

TEST(json_patch_follows_rfc_6902)
{
	static const struct row rows[] = {
		{ "add member", "{'a':1}", "[{'op':'add','path':'/b','value':2}]",
		  "{'a':1,'b':2}" },
		{ "add replaces", "{'a':1}", "[{'op':'add','path':'/a','value':2}]", "{'a':2}" },
		{ "add element", "{'a':[1,3]}", "[{'op':'add','path':'/a/1','value':2}]",
		  "{'a':[1,2,3]}" },
		{ "append", "{'a':[1]}", "[{'op':'add','path':'/a/-','value':2}]", "{'a':[1,2]}" },
		{ "beyond the end", "{'a':[1]}", "[{'op':'add','path':'/a/3','value':2}]", NULL },
		{ "no parent", "{}", "[{'op':'add','path':'/a/b','value':2}]", NULL },
		{ "escapes", "{'a/b':{'m~n':1}}",
		  "[{'op':'replace','path':'/a~1b/m~0n','value':2}]", "{'a/b':{'m~n':2}}" },
		{ "remove", "{'a':1,'b':2}", "[{'op':'remove','path':'/a'}]", "{'b':2}" },
		{ "remove element", "{'a':[1,2]}", "[{'op':'remove','path':'/a/0'}]", "{'a':[2]}" },
		{ "remove absent", "{}", "[{'op':'remove','path':'/a'}]", NULL },
		{ "replace absent", "{}", "[{'op':'replace','path':'/a','value':1}]", "{'a':1}" },
		{ "replace no element", "{'a':[]}", "[{'op':'replace','path':'/a/0','value':1}]",
		  NULL },
		{ "copy absent", "{}", "[{'op':'copy','from':'/a','path':'/b'}]", "{'b':null}" },
		{ "move absent", "{}", "[{'op':'move','from':'/a','path':'/b'}]", NULL },
		{ "from the end", "{'a':[1,2]}", "[{'op':'remove','path':'/a/-1'}]", "{'a':[1]}" },
		{ "before the beginning", "{'a':[1]}", "[{'op':'remove','path':'/a/-2'}]", NULL },
		{ "add root", "{'a':1}", "[{'op':'add','path':'','value':{}}]", NULL },
		{ "another tilde", "{'~2':1}", "[{'op':'remove','path':'/~2'}]", "{}" },
		{ "nothing", "{'a':1}", "null", "{'a':1}" },
		{ "replace element", "{'a':[1,2]}", "[{'op':'replace','path':'/a/0','value':9}]",
		  "{'a':[9,2]}" },
		{ "replace root", "{'a':1}", "[{'op':'replace','path':'','value':{'b':2}}]",
		  "{'b':2}" },
		{ "root must stay an object", "{'a':1}", "[{'op':'replace','path':'','value':[]}]",
		  NULL },
		{ "copy", "{'a':{'x':1}}", "[{'op':'copy','from':'/a','path':'/b'}]",
		  "{'a':{'x':1},'b':{'x':1}}" },
		{ "move", "{'a':{'x':1}}", "[{'op':'move','from':'/a/x','path':'/y'}]",
		  "{'a':{},'y':1}" },
		{ "move into itself", "{'a':{'x':1}}", "[{'op':'move','from':'/a','path':'/a/b'}]",
		  NULL },
		{ "test holds", "{'a':[1,{'b':2}]}",
		  "[{'op':'test','path':'/a/1','value':{'b':2.0}}]", "{'a':[1,{'b':2}]}" },
		{ "test fails", "{'a':1}", "[{'op':'test','path':'/a','value':2}]", NULL },
		{ "unknown op", "{}", "[{'op':'merge','path':'/a'}]", NULL },
		{ "no list", "{}", "{}", NULL },
		{ "no slash", "{}", "[{'op':'add','path':'a','value':1}]", NULL },
		{ "leading zero", "{'a':[1,2]}", "[{'op':'remove','path':'/a/01'}]", "{'a':[1]}" },
		{ "add without value", "{}", "[{'op':'add','path':'/a'}]", "{'a':null}" },
		{ "add null", "{}", "[{'op':'add','path':'/a','value':null}]", "{'a':null}" },
	};

	run_rows(rows, ARRAY_LEN(rows), PATCH_JSON, NULL);
}

TEST(json_patch_that_does_not_apply_is_invalid)
{
	autoptr(json_doc) d = doc("{'a':1}");
	autoptr(json_doc) failing = doc("[{'op':'test','path':'/a','value':2}]");
	autoptr(json_doc) broken = doc("[{'op':'add'}]");

	fails(patch_apply(PATCH_JSON, d, json_root(failing), NULL), ERR_INVALID);
	fails(patch_apply(PATCH_JSON, d, json_root(broken), NULL), ERR_INVALID);
}

/* Each copy doubles the tree: without a limit 60 of them would fill any memory. */
TEST(json_patch_cannot_grow_without_end)
{
	static const char op[] = "{'op':'copy','from':'/a','path':'/a/-'}";
	autoptr(json_doc) d = doc("{'a':[['xxxxxxxxxxxxxxxxxxxxxxxx']]}");
	autobuf text = { 0 };
	autoptr(json_doc) p = NULL;

	buf_add_char(&text, '[');
	for (int i = 0; i < 60; i++)
		buf_printf(&text, "%s%s", i ? "," : "", op);
	buf_add_char(&text, ']');
	p = doc(buf_str(&text));
	fails(patch_apply(PATCH_JSON, d, json_root(p), NULL), ERR_TOO_LARGE);
}

TEST(merge_patch_follows_rfc_7386)
{
	static const struct row rows[] = {
		{ "replace", "{'a':'b'}", "{'a':'c'}", "{'a':'c'}" },
		{ "add", "{'a':'b'}", "{'b':'c'}", "{'a':'b','b':'c'}" },
		{ "remove", "{'a':'b','b':'c'}", "{'a':null}", "{'b':'c'}" },
		{ "list is replaced", "{'a':['b']}", "{'a':'c'}", "{'a':'c'}" },
		{ "nested", "{'a':{'b':'c'}}", "{'a':{'b':'d','c':null}}", "{'a':{'b':'d'}}" },
		{ "list of objects", "{'a':[{'b':'c'}]}", "{'a':[1]}", "{'a':[1]}" },
		{ "object over scalar", "{'a':'foo'}", "{'a':{'b':null,'c':1}}", "{'a':{'c':1}}" },
		{ "nulls that remove nothing", "{}", "{'a':{'bb':{'ccc':null}}}",
		  "{'a':{'bb':{}}}" },
		{ "no object", "{}", "[1]", NULL },
	};

	run_rows(rows, ARRAY_LEN(rows), PATCH_MERGE, NULL);
}

TEST(strategic_merge_knows_the_lists_of_a_pod)
{
	static const struct row rows[] = {
		{ "containers by name",
		  "{'spec':{'containers':[{'name':'a','image':'1'},{'name':'b','image':'1'}]}}",
		  "{'spec':{'containers':[{'name':'b','image':'2'}]}}",
		  "{'spec':{'containers':[{'name':'a','image':'1'},{'name':'b','image':'2'}]}}" },
		{ "new elements come before those the patch does not name",
		  "{'spec':{'containers':[{'name':'a'}]}}",
		  "{'spec':{'containers':[{'name':'b'}]}}",
		  "{'spec':{'containers':[{'name':'b'},{'name':'a'}]}}" },
		{ "$patch: delete of an element",
		  "{'spec':{'containers':[{'name':'a'},{'name':'b'}]}}",
		  "{'spec':{'containers':[{'$patch':'delete','name':'a'}]}}",
		  "{'spec':{'containers':[{'name':'b'}]}}" },
		{ "$patch: replace of a list",
		  "{'spec':{'containers':[{'name':'a'},{'name':'b'}]}}",
		  "{'spec':{'containers':[{'$patch':'replace'},{'name':'c'}]}}",
		  "{'spec':{'containers':[{'name':'c'}]}}" },
		{ "ports by containerPort",
		  "{'spec':{'containers':[{'name':'a','ports':[{'containerPort':80,'name':'x'}]}]}}",
		  "{'spec':{'containers':[{'name':'a','ports':[{'containerPort':80,'protocol':'TCP'},"
		  "{'containerPort':81}]}]}}",
		  "{'spec':{'containers':[{'name':'a','ports':[{'containerPort':80,'name':'x',"
		  "'protocol':'TCP'},{'containerPort':81}]}]}}" },
		{ "env by name, with an order",
		  "{'spec':{'containers':[{'name':'c','env':[{'name':'A','value':'1'},"
		  "{'name':'B','value':'2'}]}]}}",
		  "{'spec':{'$setElementOrder/containers':[{'name':'c'}],'containers':[{"
		  "'$setElementOrder/env':[{'name':'B'},{'name':'A'},{'name':'C'}],'name':'c',"
		  "'env':[{'name':'C','value':'3'}]}]}}",
		  "{'spec':{'containers':[{'name':'c','env':[{'name':'B','value':'2'},"
		  "{'name':'A','value':'1'},{'name':'C','value':'3'}]}]}}" },
		{ "order without a change of elements",
		  "{'spec':{'volumes':[{'name':'a'},{'name':'b'},{'name':'s'}]}}",
		  "{'spec':{'$setElementOrder/volumes':[{'name':'b'},{'name':'a'}]}}",
		  "{'spec':{'volumes':[{'name':'b'},{'name':'a'},{'name':'s'}]}}" },
		{ "volumes by name keep only their keys",
		  "{'spec':{'volumes':[{'name':'v','emptyDir':{}}]}}",
		  "{'spec':{'volumes':[{'$retainKeys':['name','hostPath'],'name':'v',"
		  "'hostPath':{'path':'/x'}}]}}",
		  "{'spec':{'volumes':[{'name':'v','hostPath':{'path':'/x'}}]}}" },
		{ "finalizers are a set", "{'metadata':{'finalizers':['a/x','a/y']}}",
		  "{'metadata':{'finalizers':['a/z','a/x']}}",
		  "{'metadata':{'finalizers':['a/z','a/x','a/y']}}" },
		{ "$deleteFromPrimitiveList", "{'metadata':{'finalizers':['a/x','a/y']}}",
		  "{'metadata':{'$deleteFromPrimitiveList/finalizers':['a/x']}}",
		  "{'metadata':{'finalizers':['a/y']}}" },
		{ "finalizers: delete, add and order at once",
		  "{'metadata':{'finalizers':['a/x','a/y']}}",
		  "{'metadata':{'$deleteFromPrimitiveList/finalizers':['a/x'],"
		  "'$setElementOrder/finalizers':['a/y','a/z'],'finalizers':['a/z']}}",
		  "{'metadata':{'finalizers':['a/y','a/z']}}" },
		{ "tolerations are atomic", "{'spec':{'tolerations':[{'key':'a'},{'key':'b'}]}}",
		  "{'spec':{'tolerations':[{'key':'c'}]}}",
		  "{'spec':{'tolerations':[{'key':'c'}]}}" },
		{ "command is atomic", "{'spec':{'containers':[{'name':'a','command':['x','y']}]}}",
		  "{'spec':{'containers':[{'name':'a','command':['z']}]}}",
		  "{'spec':{'containers':[{'name':'a','command':['z']}]}}" },
		{ "owners by uid", "{'metadata':{'ownerReferences':[{'uid':'1','name':'a'}]}}",
		  "{'metadata':{'ownerReferences':[{'uid':'1','controller':true}]}}",
		  "{'metadata':{'ownerReferences':[{'uid':'1','name':'a','controller':true}]}}" },
	};

	run_rows(rows, ARRAY_LEN(rows), PATCH_STRATEGIC, kind_named("Pod")->type);
}

TEST(strategic_merge_follows_directives_in_objects)
{
	static const struct row rows[] = {
		{ "null removes", "{'metadata':{'labels':{'a':'b','c':'d'}}}",
		  "{'metadata':{'labels':{'a':null}}}", "{'metadata':{'labels':{'c':'d'}}}" },
		{ "null inside what is new", "{}", "{'metadata':{'labels':{'a':null,'b':'c'}}}",
		  "{'metadata':{'labels':{'b':'c'}}}" },
		{ "$patch: replace of an object", "{'spec':{'securityContext':{'runAsUser':1}}}",
		  "{'spec':{'securityContext':{'$patch':'replace','fsGroup':2}}}",
		  "{'spec':{'securityContext':{'fsGroup':2}}}" },
		{ "$patch: delete of an object", "{'spec':{'nodeSelector':{'a':'b'}}}",
		  "{'spec':{'nodeSelector':{'$patch':'delete'}}}", "{'spec':{'nodeSelector':{}}}" },
		{ "$patch: merge", "{'spec':{'nodeSelector':{'a':'b'}}}",
		  "{'spec':{'nodeSelector':{'$patch':'merge','c':'d'}}}", NULL },
		{ "$patch of what is not there", "{'spec':{}}",
		  "{'spec':{'nodeSelector':{'$patch':'replace','c':'d'}}}", "{'spec':{}}" },
		{ "directives do not reach the object", "{}",
		  "{'spec':{'$retainKeys':['containers'],'containers':[{'$patch':'delete','name':'x'},"
		  "{'name':'a'}]}}",
		  "{'spec':{'containers':[{'name':'a'}]}}" },
		{ "unknown $patch", "{'spec':{}}", "{'spec':{'$patch':'explode'}}", NULL },
		{ "element without its key", "{'spec':{'containers':[{'name':'a'}]}}",
		  "{'spec':{'containers':[{'image':'x'}]}}", NULL },
		{ "keys that the patch adds but does not retain", "{'spec':{}}",
		  "{'spec':{'$retainKeys':['a'],'b':1}}", NULL },
		{ "no object", "{}", "[]", NULL },
	};

	run_rows(rows, ARRAY_LEN(rows), PATCH_STRATEGIC, kind_named("Pod")->type);
}

/* The patch that `kubectl apply` sends when a Service's port and label change. */
TEST(strategic_merge_takes_what_kubectl_apply_sends)
{
	autoptr(json_doc) d =
		doc("{'metadata':{'annotations':{'last':'1'},'labels':{'a':'b'}},"
		    "'spec':{'clusterIP':'10.0.0.1','ports':[{'port':80,'protocol':'TCP',"
		    "'targetPort':80}],'selector':{'app':'x'}}}");
	autoptr(json_doc) p =
		doc("{'metadata':{'annotations':{'last':'2'},'labels':{'a':null,'c':'d'}},'spec':{"
		    "'$setElementOrder/ports':[{'port':81}],'ports':[{'port':81,'protocol':'TCP',"
		    "'targetPort':80},{'$patch':'delete','port':80}]}}");

	works(patch_apply(PATCH_STRATEGIC, d, json_root(p), kind_named("Service")->type));
	eq_json(json_root(d), "{'metadata':{'annotations':{'last':'2'},'labels':{'c':'d'}},'spec':{"
			      "'clusterIP':'10.0.0.1','ports':[{'port':81,'protocol':'TCP',"
			      "'targetPort':80}],'selector':{'app':'x'}}}");
}

TEST(patch_that_asks_for_too_much_work_is_refused)
{
	autobuf text = { 0 };
	autoptr(json_doc) d = doc("{}");
	autoptr(json_doc) p = NULL;

	buf_add_char(&text, '{');
	for (int i = 0; i < 20000; i++)
		buf_printf(&text, "%s'k%d':null", i ? "," : "", i);
	buf_add_str(&text, ",'x':1}");
	p = doc(buf_str(&text));
	works(patch_apply(PATCH_MERGE, d, json_root(p), NULL));
	buf_clear(&text);
	buf_add_str(&text, "{'a':");
	json_write(json_root(p), &text);
	buf_add_char(&text, '}');
	json_doc_free(p);
	p = doc(buf_str(&text));
	fails(patch_apply(PATCH_STRATEGIC, d, json_root(p), NULL), ERR_TOO_LARGE);
}

/* Each copy puts the whole into itself, so that depth doubles with every operation. */
TEST(a_patch_cannot_nest_what_no_parser_would_read)
{
	autobuf text = { 0 };
	autoptr(json_doc) d = doc("{'a':{}}");
	autoptr(json_doc) p = NULL;

	buf_add_char(&text, '[');
	for (int i = 0; i < 9; i++) {
		buf_printf(&text, "%s{'op':'copy','from':'/a','path':'", i ? "," : "");
		for (int depth = 1 << i; depth > 0; depth--)
			buf_add_str(&text, "/a");
		buf_add_str(&text, "/a'}");
	}
	buf_add_char(&text, ']');
	p = doc(buf_str(&text));
	fails(patch_apply(PATCH_JSON, d, json_root(p), NULL), ERR_TOO_LARGE);
}

TEST(apply_is_not_served)
{
	autoptr(json_doc) d = doc("{}");

	fails(patch_apply(PATCH_APPLY, d, json_root(d), NULL), ERR_UNSUPPORTED);
}
