/* SPDX-License-Identifier: Apache-2.0 */
#include "api/apply/fields.h"
#include "api/apply/managed.h"
#include "api/apply/typed.h"
#include "api/schema.h"
#include "api_test.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "kinds.h"

/*
 * A small type with one of everything that server-side apply tells apart: a struct, a map, lists
 * with one key and with two, of which one has a default, a set, and what is atomic.
 */
static const struct field port_fields[] = {
	{ "port", &type_int32 },
	{ "protocol", &type_string, 0, "\"TCP\"" },
	{ "name", &type_string },
	{ 0 },
};
static const struct type port = { TYPE_OBJECT, .fields = port_fields };
static const struct type ports = { TYPE_LIST, .elem = &port, .list = LIST_MAP,
				   .merge_keys = { "port", "protocol" } };
static const struct field item_fields[] = {
	{ "name", &type_string },
	{ "value", &type_string },
	{ "list", &type_string_list },
	{ 0 },
};
static const struct type item = { TYPE_OBJECT, .fields = item_fields };
static const struct type items = { TYPE_LIST, .elem = &item, .list = LIST_MAP,
				   .merge_keys = { "name" } };
static const struct type set = { TYPE_LIST, .elem = &type_string, .list = LIST_SET };
static const struct type whole_map = { TYPE_MAP, .elem = &type_string, .atomic = true };
static const struct field spec_fields[] = {
	{ "items", &items },
	{ "ports", &ports },
	{ "set", &set },
	{ "map", &type_string_map },
	{ "whole", &whole_map },
	{ "list", &type_string_list },
	{ "number", &type_int32 },
	{ "text", &type_string },
	{ "inner", &item },
	{ "any", &type_any },
	{ 0 },
};
static const struct type spec = { TYPE_OBJECT, .fields = spec_fields, .structural = true };

static void eq_fields(const struct fields *s, const char *want)
{
	autoptr(json_doc) d = json_doc_new();

	eq_json(fields_print(d, s), want);
}

/* In the right order too, which eq_json() does not look at. */
static void eq_text(const struct fields *s, const char *want)
{
	autoptr(json_doc) d = json_doc_new();
	autofree char *text = json_to_text(fields_print(d, s));

	eq_str(text, want);
}

/* Each use leaves its tree in the memory that it is given. */
static const struct json *tree(struct fields_mem *mem, const char *text)
{
	autoptr(json_doc) d = doc(text);

	return json_copy(mem->doc, json_root(d));
}

static const struct fields *parsed(struct fields_mem *mem, const char *text)
{
	const struct fields *s = NULL;

	works(fields_parse(mem, tree(mem, text), &s));
	return s;
}

#define MEM(name)                \
	autofields name = { 0 }; \
	fields_mem_init(&(name))

TEST(sets_of_fields_are_combined)
{
	static const struct {
		const char *s, *t, *both, *common, *rest;
	} rows[] = {
		{ "{'f:a':{},'f:b':{}}", "{'f:b':{},'f:c':{}}", "{'f:a':{},'f:b':{},'f:c':{}}",
		  "{'f:b':{}}", "{'f:a':{}}" },
		{ "{'f:a':{'.':{},'f:x':{}}}", "{'f:a':{}}", "{'f:a':{'.':{},'f:x':{}}}",
		  "{'f:a':{}}", "{'f:a':{'f:x':{}}}" },
		{ "{'f:a':{'f:x':{},'f:y':{}}}", "{'f:a':{'f:y':{},'f:z':{}}}",
		  "{'f:a':{'f:x':{},'f:y':{},'f:z':{}}}", "{'f:a':{'f:y':{}}}",
		  "{'f:a':{'f:x':{}}}" },
		{ "{'f:a':{}}", "{}", "{'f:a':{}}", "{}", "{'f:a':{}}" },
		{ "{}", "{'f:a':{}}", "{'f:a':{}}", "{}", "{}" },
		{ "{'k:{\\'n\\':1}':{'.':{},'f:v':{}}}", "{'k:{\\'n\\':1}':{}}",
		  "{'k:{\\'n\\':1}':{'.':{},'f:v':{}}}", "{'k:{\\'n\\':1}':{}}",
		  "{'k:{\\'n\\':1}':{'f:v':{}}}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		MEM(m);
		const struct fields *s = parsed(&m, rows[i].s), *t = parsed(&m, rows[i].t);

		eq_fields(fields_union(&m, s, t), rows[i].both);
		eq_fields(fields_intersection(&m, s, t), rows[i].common);
		eq_fields(fields_difference(&m, s, t), rows[i].rest);
		is_true(fields_equal(fields_union(&m, s, t), fields_union(&m, t, s)));
	}
}

TEST(a_field_at_the_top_is_left_out_or_kept_alone)
{
	MEM(m);
	const struct fields *s = parsed(&m, "{'f:a':{'f:x':{}},'f:b':{}}");

	eq_fields(fields_without(&m, s, "a"), "{'f:b':{}}");
	eq_fields(fields_without(&m, s, "c"), "{'f:a':{'f:x':{}},'f:b':{}}");
	eq_fields(fields_only(&m, s, "a"), "{'f:a':{'f:x':{}}}");
	eq_fields(fields_only(&m, s, "c"), "{}");
	eq_fields(managed_strip(&m, parsed(&m, "{'f:kind':{},'f:metadata':{'.':{},'f:name':{},"
					       "'f:uid':{},'f:labels':{'f:name':{}}}}")),
		  "{'f:metadata':{'f:labels':{'f:name':{}}}}");
}

TEST(elements_of_paths_are_in_the_order_of_kubernetes)
{
	MEM(m);

	eq_text(parsed(&m, "{'i:3':{},'v:\\'b\\'':{},'v:10':{},'v:9':{},'k:{\\'p\\':80}':{},"
			   "'k:{\\'p\\':9}':{},'f:b':{},'f:a':{'f:c':{},'.':{}}}"),
		"{\"f:a\":{\".\":{},\"f:c\":{}},\"f:b\":{},\"k:{\\\"p\\\":9}\":{},"
		"\"k:{\\\"p\\\":80}\":{},\"v:9\":{},\"v:10\":{},\"v:\\\"b\\\"\":{},\"i:3\":{}}");
}

TEST(a_set_that_cannot_be_read_is_refused)
{
	static const char *const bad[] = {
		"{'f':{}}",
		"{'x':{}}",
		"{'f:a':1}",
		"{'f:a':{'f:b':[]}}",
		"{'k:[1]':{}}",
		"{'k:{}':{}}",
		"{'k:{\\'a\\':{}}':{}}",
		"{'k:{\\'a\\':1':{}}",
		"{'v:[1]':{}}",
		"{'v:':{}}",
		"{'i:x':{}}",
		("{'k:{\\'a\\':1,\\'b\\':1,\\'c\\':1,\\'d\\':1,\\'e\\':1,\\'f\\':1,\\'g\\':1,"
		 "\\'h\\':1,\\'i\\':1}':{}}"),
	};
	const struct fields *s;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		MEM(m);

		fails(fields_parse(&m, tree(&m, bad[i]), &s), ERR_INVALID);
	}
}

TEST(elements_of_a_later_version_are_left_out_and_spellings_of_a_key_are_one)
{
	MEM(m);

	eq_fields(parsed(&m, "{'z:later':{'f:x':{}},'f:a':{}}"), "{'f:a':{}}");
	eq_fields(parsed(&m, "{'k:{\\'a\\':1,\\'b\\':2}':{'f:x':{}},"
			     "'k:{\\'b\\':2, \\'a\\':1}':{'f:y':{}}}"),
		  "{'k:{\\'a\\':1,\\'b\\':2}':{'f:x':{},'f:y':{}}}");
}

TEST(a_set_has_a_limit)
{
	MEM(m);
	struct json *o = json_obj(m.doc);
	const struct fields *s;

	for (int i = 0; i <= FIELDS_NODES_MAX; i++) {
		char key[24];

		(void)snprintf(key, sizeof(key), "f:%d", i);
		json_add(m.doc, o, key, json_obj(m.doc));
	}
	fails(fields_parse(&m, o, &s), ERR_TOO_LARGE);
}

TEST(the_fields_of_a_tree_are_those_that_it_sets)
{
	static const struct {
		const char *tree, *want;
	} rows[] = {
		{ "{'number':1,'text':''}", "{'f:number':{},'f:text':{}}" },
		{ "{'inner':{'name':'x'}}", "{'f:inner':{'f:name':{}}}" },
		{ "{'inner':{}}", "{'f:inner':{}}" },
		{ "{'inner':null,'text':null}", "{'f:inner':{},'f:text':{}}" },
		{ "{'map':{'a':'1'}}", "{'f:map':{'f:a':{}}}" },
		{ "{'map':{}}", "{'f:map':{}}" },
		{ "{'whole':{'a':'1'},'list':['x']}", "{'f:whole':{},'f:list':{}}" },
		{ "{'set':['b','a']}", "{'f:set':{'v:\\'a\\'':{},'v:\\'b\\'':{}}}" },
		{ "{'set':[],'items':[]}", "{}" },
		{ "{'items':[{'name':'a','value':'1'}]}",
		  "{'f:items':{'k:{\\'name\\':\\'a\\'}':{'.':{},'f:name':{},'f:value':{}}}}" },
		{ "{'ports':[{'port':80}]}", "{'f:ports':{'k:{\\'port\\':80,\\'protocol\\':"
					     "\\'TCP\\'}':{'.':{},'f:port':{}}}}" },
		{ "{'items':[{'name':'a'},{'name':'a','value':'1'}]}",
		  "{'f:items':{'k:{\\'name\\':\\'a\\'}':{}}}" },
		{ "{'any':{'x':{'y':[1]}}}", "{'f:any':{'f:x':{'.':{},'f:y':{}}}}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		MEM(m);

		eq_fields(typed_fields(&m, tree(&m, rows[i].tree), &spec), rows[i].want);
	}
}

TEST(trees_are_compared_field_by_field)
{
	static const struct {
		const char *was, *next, *added, *modified, *removed;
	} rows[] = {
		{ "{'number':1}", "{'number':1}", "{}", "{}", "{}" },
		{ "{'number':1}", "{'number':2,'text':'x'}", "{'f:text':{}}", "{'f:number':{}}",
		  "{}" },
		{ "{}", "{'map':{'a':'1'}}", "{'f:map':{'.':{},'f:a':{}}}", "{}", "{}" },
		{ "{'map':null}", "{'map':{'a':'1'}}", "{'f:map':{'f:a':{}}}", "{}", "{}" },
		{ "{'map':{'a':'1'}}", "{'map':{'b':'1'}}", "{'f:map':{'f:b':{}}}", "{}",
		  "{'f:map':{'f:a':{}}}" },
		{ "{'map':{'a':'1'}}", "{}", "{}", "{}", "{'f:map':{'.':{},'f:a':{}}}" },
		{ "{'whole':{'a':'1'}}", "{'whole':{'b':'1'}}", "{}", "{'f:whole':{}}", "{}" },
		{ "{'list':['a']}", "{'list':['b']}", "{}", "{'f:list':{}}", "{}" },
		{ "{'set':['a','b']}", "{'set':['b','c']}", "{'f:set':{'v:\\'c\\'':{}}}", "{}",
		  "{'f:set':{'v:\\'a\\'':{}}}" },
		{ "{'items':[{'name':'a','value':'1'},{'name':'b'}]}",
		  "{'items':[{'name':'b'},{'name':'a','value':'2'}]}", "{}",
		  "{'f:items':{'k:{\\'name\\':\\'a\\'}':{'f:value':{}}}}", "{}" },
		{ "{'items':[{'name':'a'}]}", "{'items':[{'name':'a'},{'name':'a'}]}",
		  "{'f:items':{'k:{\\'name\\':\\'a\\'}':{}}}", "{}",
		  "{'f:items':{'k:{\\'name\\':\\'a\\'}':{'.':{},'f:name':{}}}}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		MEM(m);
		struct comparison c =
			typed_compare(&m, tree(&m, rows[i].was), tree(&m, rows[i].next), &spec);

		eq_fields(c.added, rows[i].added);
		eq_fields(c.modified, rows[i].modified);
		eq_fields(c.removed, rows[i].removed);
	}
}

TEST(lists_are_merged_in_the_order_of_kubernetes)
{
	static const struct {
		const char *live, *patch, *want;
	} rows[] = {
		{ "['a','b']", "['c']", "['a','b','c']" },
		{ "['a','b','c']", "['c','a']", "['b','c','a']" },
		{ "['a','b','c']", "['b','x','c']", "['a','b','x','c']" },
		{ "['a','b','c']", "['x','b']", "['a','x','b','c']" },
		{ "[]", "['x','y']", "['x','y']" },
		{ "['a','b','c','d']", "['d','b']", "['a','c','d','b']" },
		{ "['a','b']", "['b','a']", "['b','a']" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		MEM(m);
		autoptr(json_doc) d = json_doc_new();

		eq_json(typed_merge(&m, d, tree(&m, rows[i].live), tree(&m, rows[i].patch), &set),
			rows[i].want);
	}
}

TEST(what_is_applied_is_merged_by_type)
{
	static const struct {
		const char *live, *patch, *want;
	} rows[] = {
		{ "{'map':{'a':'1'},'text':'x'}", "{'map':{'b':'2'}}",
		  "{'map':{'a':'1','b':'2'},'text':'x'}" },
		{ "{'whole':{'a':'1'},'list':['a']}", "{'whole':{'b':'2'},'list':['b']}",
		  "{'whole':{'b':'2'},'list':['b']}" },
		{ "{'items':[{'name':'a','value':'1'},{'name':'b','value':'2'}]}",
		  "{'items':[{'name':'b','list':['x']}]}",
		  "{'items':[{'name':'a','value':'1'},{'name':'b','value':'2','list':['x']}]}" },
		{ "{'ports':[{'port':80,'protocol':'TCP'},{'port':80,'protocol':'UDP'}]}",
		  "{'ports':[{'port':80,'name':'web'}]}",
		  "{'ports':[{'port':80,'protocol':'TCP','name':'web'},"
		  "{'port':80,'protocol':'UDP'}]}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		MEM(m);
		autoptr(json_doc) d = json_doc_new();

		eq_json(typed_merge(&m, d, tree(&m, rows[i].live), tree(&m, rows[i].patch), &spec),
			rows[i].want);
	}
}

TEST(what_cannot_be_applied_is_named)
{
	static const struct {
		const char *tree, *why;
	} rows[] = {
		{ "{'nope':1}", ".nope: field not declared in schema" },
		{ "{'number':'x'}", ".number: expected numeric (int or float), got \"x\"" },
		{ "{'map':[]}", ".map: expected map, got []" },
		{ "{'set':{}}", ".set: expected list, got {}" },
		{ "{'set':['a','a']}", ".set: duplicate entries for key [=\"a\"]" },
		{ "{'items':[{'name':'a'},{'name':'a'}]}",
		  ".items: duplicate entries for key [name=\"a\"]" },
		{ "{'items':[{'value':'x'}]}",
		  ".items: element 0: associative list with keys has an element that omits all "
		  "key fields" },
		{ "{'items':[{'name':'a','huh':1}]}",
		  ".items[name=\"a\"].huh: field not declared in schema" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		MEM(m);
		autoptr(err) e = typed_check(&m, tree(&m, rows[i].tree), &spec);

		eq_str(e ? err_text(e) : NULL, rows[i].why);
	}
}

/* Apply */

struct applied {
	const char *live, *managed, *patch;
	bool force;
	const char *next, *owners, *conflict;
};

/* 'a' stands for the entry of an applier, 'u' for that of an updater. */
static struct managed owners_of(struct fields_mem *mem, const char *text)
{
	struct managed m = { 0 };

	if (!text)
		return m;
	json_each(it, tree(mem, text)) {
		struct manager one = {
			.name = it.key + 1,
			.applied = *it.key == 'a',
			.api_version = "v1",
			.sub = "",
			.time = "2020-01-01T00:00:00Z",
		};

		works(fields_parse(mem, it.val, &one.set));
		managed_add(mem, &m, &one);
	}
	return m;
}

static void eq_owners(struct fields_mem *mem, const struct managed *m, const char *want)
{
	struct json *o = json_obj(mem->doc);

	for (size_t i = 0; i < m->n; i++) {
		autofree char *key =
			xasprintf("%c%s", m->list[i].applied ? 'a' : 'u', m->list[i].name);

		json_add(mem->doc, o, key, fields_print(mem->doc, m->list[i].set));
	}
	eq_json(o, want);
}

static void run_apply(const struct applied *row)
{
	MEM(mem);
	autoptr(json_doc) d = json_doc_new();
	struct managed m = owners_of(&mem, row->managed);
	struct causes causes = { 0 };
	struct apply r = {
		.mem = &mem,
		.type = &spec,
		.live = tree(&mem, row->live),
		.patch = tree(&mem, row->patch),
		.by = { "me", true, "v1", "", "2026-01-01T00:00:00Z", NULL },
		.force = row->force,
		.m = &m,
		.causes = &causes,
	};
	struct json *next = NULL;
	autoptr(err) e = apply_merge(&r, d, &next);

	eq_str(e ? err_text(e) : NULL, row->conflict);
	if (!e) {
		eq_json(next, row->next);
		eq_owners(&mem, &m, row->owners);
	}
	causes_done(&causes);
}

TEST(an_apply_merges_prunes_and_takes_over)
{
	static const struct applied rows[] = {
		/* what is applied is owned */
		{ "{'text':'x'}", NULL, "{'number':1}", false, "{'text':'x','number':1}",
		  "{'ame':{'f:number':{}}}", NULL },
		/* what is not applied any more is removed */
		{ "{'text':'x','number':1}", "{'ame':{'f:text':{},'f:number':{}}}", "{'number':1}",
		  false, "{'number':1}", "{'ame':{'f:number':{}}}", NULL },
		/* unless somebody else owns it */
		{ "{'text':'x','number':1}",
		  "{'ame':{'f:text':{},'f:number':{}},'uyou':{'f:text':{}}}", "{'number':1}", false,
		  "{'text':'x','number':1}", "{'uyou':{'f:text':{}},'ame':{'f:number':{}}}", NULL },
		/* what nobody owns stays */
		{ "{'text':'x'}", "{'ame':{'f:number':{}}}", "{}", false, "{'text':'x'}", "{}",
		  NULL },
		/* the same value has two owners */
		{ "{'text':'x'}", "{'ayou':{'f:text':{}}}", "{'text':'x'}", false, "{'text':'x'}",
		  "{'ayou':{'f:text':{}},'ame':{'f:text':{}}}", NULL },
		/* another value is a conflict */
		{ "{'text':'x'}", "{'ayou':{'f:text':{}}}", "{'text':'y'}", false, NULL, NULL,
		  "Apply failed with 1 conflict: conflict with \"you\": .text" },
		{ "{'text':'x','number':1}", "{'uyou':{'f:text':{}},'aher':{'f:number':{}}}",
		  "{'text':'y','number':2}", false, NULL, NULL,
		  "Apply failed with 2 conflicts: conflicts with \"her\":\n- .number\n"
		  "conflicts with \"you\" using v1:\n- .text" },
		/* that can be won */
		{ "{'text':'x'}", "{'ayou':{'f:text':{},'f:number':{}}}", "{'text':'y'}", true,
		  "{'text':'y'}", "{'ayou':{'f:number':{}},'ame':{'f:text':{}}}", NULL },
		/* elements of lists */
		{ "{'items':[{'name':'a','value':'1'},{'name':'b'}]}",
		  "{'ame':{'f:items':{'k:{\\'name\\':\\'a\\'}':{'.':{},'f:name':{},'f:value':{}}}}}",
		  "{'items':[{'name':'c'}]}", false, "{'items':[{'name':'b'},{'name':'c'}]}",
		  "{'ame':{'f:items':{'k:{\\'name\\':\\'c\\'}':{'.':{},'f:name':{}}}}}", NULL },
		/* an element that others add to stays, with what they own and its key */
		{ "{'items':[{'name':'a','value':'1','list':['x']}]}",
		  "{'ame':{'f:items':{'k:{\\'name\\':\\'a\\'}':{'.':{},'f:name':{},'f:value':{}}}},"
		  "'uyou':{'f:items':{'k:{\\'name\\':\\'a\\'}':{'.':{},'f:name':{},'f:list':{}}}}}",
		  "{}", false, "{'items':[{'name':'a','list':['x']}]}",
		  "{'uyou':{'f:items':{'k:{\\'name\\':\\'a\\'}':{'.':{},'f:name':{},'f:list':{}}}}}",
		  NULL },
		/* the last member of a map takes the map with it */
		{ "{'map':{'a':'1'},'text':'x'}", "{'ame':{'f:map':{'f:a':{}}}}", "{}", false,
		  "{'text':'x'}", "{}", NULL },
		{ "{'set':['a','b']}", "{'ame':{'f:set':{'v:\\'a\\'':{}}}}", "{'set':['c']}", false,
		  "{'set':['b','c']}", "{'ame':{'f:set':{'v:\\'c\\'':{}}}}", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		run_apply(&rows[i]);
}

TEST(a_write_takes_what_it_changes)
{
	static const struct {
		const char *was, *next, *owners, *want;
	} rows[] = {
		{ "{'text':'x'}", "{'text':'y'}", "{'ayou':{'f:text':{},'f:number':{}}}",
		  "{'ayou':{'f:number':{}},'ume':{'f:text':{}}}" },
		{ "{'text':'x'}", "{}", "{'ayou':{'f:text':{}}}", "{}" },
		{ "{'text':'x'}", "{'text':'x'}", "{'ayou':{'f:text':{}}}",
		  "{'ayou':{'f:text':{}}}" },
		{ "{}", "{'text':'x'}", "{'ume':{'f:number':{}}}",
		  "{'ume':{'f:number':{},'f:text':{}}}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		MEM(mem);
		struct managed m = owners_of(&mem, rows[i].owners);
		struct manager by = { .name = "me", .api_version = "v1", .sub = "" };
		struct comparison c = typed_compare(&mem, tree(&mem, rows[i].was),
						    tree(&mem, rows[i].next), &spec);

		managed_update(&mem, &m, &c, &by);
		eq_owners(&mem, &m, rows[i].want);
	}
}

TEST(the_oldest_of_many_updaters_become_one)
{
	MEM(mem);
	struct managed m = { 0 };

	for (int i = 0; i < 13; i++) {
		struct json *before = json_obj(mem.doc), *after = json_obj(mem.doc);
		struct manager by = { .api_version = "v1", .sub = "" };
		struct comparison c;
		char *name = arena_printf(mem.arena, "m%02d", i);
		struct json *map = json_obj(mem.doc);

		json_add(mem.doc, before, "map", json_obj(mem.doc));
		json_add(mem.doc, map, name, json_new_str(mem.doc, "x"));
		json_add(mem.doc, after, "map", map);
		c = typed_compare(&mem, before, after, &spec);
		by.name = name;
		by.time = arena_printf(mem.arena, "2026-01-01T00:00:%02dZ", i);
		managed_update(&mem, &m, &c, &by);
	}
	eq_int(m.n, MANAGED_UPDATERS_MAX);
	for (size_t i = 0; i < m.n; i++)
		if (str_eq(m.list[i].name, "ancient-changes")) {
			eq_fields(m.list[i].set,
				  "{'f:map':{'f:m00':{},'f:m01':{},'f:m02':{},'f:m03':{}}}");
			eq_str(m.list[i].time, "2026-01-01T00:00:03Z");
			return;
		}
	fail();
}

TEST(entries_are_read_and_written)
{
	static const char text[] =
		"[{'manager':'a','operation':'Apply','apiVersion':'v1','time':'2026-01-01T00:00:00Z',"
		"'fieldsType':'FieldsV1','fieldsV1':{'f:data':{'f:x':{}}},'subresource':'status'},"
		"{'manager':'b','operation':'Update','apiVersion':'v1','fieldsType':'FieldsV1',"
		"'fieldsV1':{'f:data':{}}}]";
	static const char *const bad[] = {
		"[{}]",
		"[{'manager':'a','operation':'Applied','apiVersion':'v1','fieldsType':'FieldsV1'}]",
		"[{'manager':'a','operation':'Apply','fieldsType':'FieldsV1'}]",
		"[{'manager':'a','operation':'Apply','apiVersion':'v1'}]",
		("[{'manager':'a','operation':'Apply','apiVersion':'v1','fieldsType':'FieldsV1',"
		 "'fieldsV1':{'nope':{}}}]"),
	};
	MEM(mem);
	struct managed m;

	works(managed_read(&mem, tree(&mem, text), &m));
	eq_json(managed_write(mem.doc, &m), text);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		fails(managed_read(&mem, tree(&mem, bad[i]), &m), ERR_INVALID);
	is_true(managed_resets(tree(&mem, "[]")));
	is_true(managed_resets(tree(&mem, "[{}]")));
	is_false(managed_resets(NULL));
	is_false(managed_resets(tree(&mem, text)));
}

TEST(a_set_meets_another_that_was_not_parsed)
{
	MEM(m);
	const struct fields *s = parsed(&m, "{'f:a':{'f:b':{}},'f:c':{}}");

	is_true(fields_meet(s, tree(&m, "{'f:c':{}}")));
	is_true(fields_meet(s, tree(&m, "{'f:a':{'f:b':{'.':{},'f:x':{}}}}")));
	is_false(fields_meet(s, tree(&m, "{'f:a':{'f:x':{}},'f:c':{'f:d':{}}}")));
	is_false(fields_meet(s, tree(&m, "{}")));
}
