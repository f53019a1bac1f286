/* SPDX-License-Identifier: Apache-2.0 */
#include "api/crd/crd.h"

#include "api/crd/custom.h"
#include "api/object.h"
#include "api/registry.h"
#include "api_test.h"
#include "base/buf.h"
#include "json/json.h"

/* Definitions: what a schema does to an object, which names a kind gets, and how far strangers get.
 */
static struct json_doc *definition(const char *plural, const char *kind, const char *schema)
{
	autofree char *text = xasprintf(
		"{'apiVersion':'apiextensions.k8s.io/v1','kind':'CustomResourceDefinition',"
		"'metadata':{'name':'%s.example.com'},'spec':{'group':'example.com',"
		"'scope':'Namespaced','names':{'plural':'%s','kind':'%s'},'versions':[{'name':'v1',"
		"'served':true,'storage':true,'schema':{'openAPIV3Schema':%s}}]}}",
		plural, plural, kind, schema);

	return doc(text);
}

#define OBJECT(properties) \
	"{'type':'object','properties':{'spec':{'type':'object'," properties "}}}"

/* The kind that a definition makes. The caller drops it. */
static struct kind *kind_of(const char *schema)
{
	autoptr(kinds) ks = kinds_new();
	struct json_doc *d = definition("toys", "Toy", schema);
	const struct kind *crd =
		kinds_need(ks, "apiextensions.k8s.io/v1", "CustomResourceDefinition");
	struct causes c = { 0 };
	struct crd_kinds made;
	struct object *o;

	decode(d, crd->type, NULL);
	crd_defaults(d, NULL);
	crd_settle(d, ks, 0);
	crd_validate(json_root(d), NULL, &c);
	if (c.n)
		print_error("%s: %s\n", c.list[0].field, c.list[0].message);
	eq_int(c.n, 0);
	is_true(crd_established(json_root(d)));
	o = object_new(crd, d);
	works(crd_kinds_new(o, &made));
	object_unref(o);
	eq_int(made.n, 1);
	return made.list[0];
}

/* What becomes of an object: NULL is what causes_text() says. */
static void becomes(const char *schema, const char *in, const char *want, const char *wrong)
{
	struct kind *k = kind_of(schema);
	autoptr(json_doc) d = NULL;
	autofree char *body = xasprintf("{'apiVersion':'example.com/v1','kind':'Toy','metadata':{"
					"'name':'x'},'spec':%s}",
					in);
	struct causes c = { 0 };

	d = doc(body);
	decode(d, k->type, NULL);
	schema_default(d, json_root(d), k->type, NULL);
	schema_validate(json_root(d), k->type, NULL, &c);
	if (want)
		eq_json(json_get(json_root(d), "spec"), want);
	if (wrong) {
		autofree char *text = causes_text(&c);

		eq_str(text, wrong);
	} else {
		eq_int(c.n, 0);
	}
	causes_done(&c);
	kind_unref(k);
}

TEST(an_object_keeps_what_its_schema_knows)
{
	static const char schema[] = OBJECT(
		"'properties':{'a':{'type':'string'},'free':{'type':'object',"
		"'x-kubernetes-preserve-unknown-fields':true,'properties':{'known':{'type':'object',"
		"'properties':{'x':{'type':'integer'}}}}},'map':{'type':'object',"
		"'additionalProperties':{'type':'object','properties':{'x':{'type':'integer'}}}},"
		"'list':{'type':'array','items':{'type':'object','properties':{'x':{'type':'integer'"
		"}}}},'null':{'type':'string','nullable':true}}");

	becomes(schema, "{'a':'b','c':1}", "{'a':'b'}", NULL);
	becomes(schema, "{'free':{'y':{'z':null},'known':{'x':1,'y':2}}}",
		"{'free':{'y':{'z':null},'known':{'x':1}}}", NULL);
	becomes(schema, "{'map':{'k':{'x':1,'y':2}}}", "{'map':{'k':{'x':1}}}", NULL);
	becomes(schema, "{'list':[{'x':1,'y':2},{}]}", "{'list':[{'x':1},{}]}", NULL);
	becomes(schema, "{'a':null,'null':null}", "{'null':null}", NULL);
}

TEST(defaults_are_filled_in_at_every_depth)
{
	static const char schema[] = OBJECT(
		"'properties':{'n':{'type':'integer','default':3},'o':{'type':'object','default':{},"
		"'properties':{'s':{'type':'string','default':'x'}}},'list':{'type':'array','items':"
		"{'type':'object','properties':{'k':{'type':'string','default':'y'}}}}}");

	becomes(schema, "{}", "{'n':3,'o':{'s':'x'}}", NULL);
	becomes(schema, "{'n':null,'o':{'s':'z'},'list':[{},{'k':'a'}]}",
		"{'n':3,'o':{'s':'z'},'list':[{'k':'y'},{'k':'a'}]}", NULL);
}

TEST(values_are_checked_in_kubernetes_words)
{
	static const struct {
		const char *schema, *value, *wrong;
	} rows[] = {
		{ "{'type':'string','pattern':'^a+$'}", "'b'",
		  "spec.v: Invalid value: \"b\": spec.v in body should match '^a+$'" },
		{ "{'type':'integer','minimum':2}", "1",
		  "spec.v: Invalid value: 1: spec.v in body should be greater than or equal to 2" },
		{ "{'type':'number','maximum':2.5,'exclusiveMaximum':true}", "2.5",
		  "spec.v: Invalid value: 2.5: spec.v in body should be less than 2.5" },
		{ "{'type':'integer','multipleOf':3}", "4",
		  "spec.v: Invalid value: 4: spec.v in body should be a multiple of 3" },
		{ "{'type':'string','enum':['a','b']}", "'c'",
		  "spec.v: Unsupported value: \"c\": supported values: \"a\", \"b\"" },
		{ "{'type':'string','maxLength':2}", "'abc'",
		  "spec.v: Too long: may not be more than 2 bytes" },
		{ "{'type':'string','minLength':2}", "'\xc3\xa9'",
		  "spec.v: Invalid value: \"\xc3\xa9\": spec.v in body should be at least 2 chars "
		  "long" },
		{ "{'type':'string','format':'ipv4'}", "'::1'",
		  "spec.v: Invalid value: \"::1\": spec.v in body must be of type ipv4: \"::1\"" },
		{ "{'type':'boolean'}", "'x'",
		  "spec.v: Invalid value: \"string\": spec.v in body must be of type boolean: "
		  "\"string\"" },
		{ "{'type':'array','items':{'type':'string'},'maxItems':1}", "['a','b']",
		  "spec.v: Too many: 2: must have at most 1 items" },
		{ "{'type':'array','items':{'type':'string'},'x-kubernetes-list-type':'set'}",
		  "['a','b','a']", "spec.v[2]: Duplicate value: \"a\"" },
		{ "{'type':'object','minProperties':1}", "{}",
		  "spec.v: Invalid value: 0: spec.v in body should have at least 1 properties" },
		{ "{'type':'object','required':['k'],'properties':{'k':{'type':'string'}}}", "{}",
		  "spec.v.k: Required value" },
		{ "{'type':'string','not':{'enum':['x']}}", "'x'",
		  "<nil>: Invalid value: \"\": \"spec.v\" must not validate the schema (not)" },
		{ "{'type':'integer','oneOf':[{'minimum':1},{'minimum':2}]}", "3",
		  "<nil>: Invalid value: \"\": \"spec.v\" must validate one and only one schema "
		  "(oneOf). Found 2 valid alternatives" },
		{ "{'x-kubernetes-int-or-string':true}", "true",
		  "spec.v: Invalid value: \"boolean\": spec.v in body must be of type "
		  "integer,string: \"boolean\"" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *schema = xasprintf(OBJECT("'properties':{'v':%s}"), rows[i].schema);
		autofree char *value = xasprintf("{'v':%s}", rows[i].value);

		becomes(schema, value, NULL, rows[i].wrong);
	}
}

TEST(what_was_accepted_before_does_not_stand_in_the_way)
{
	struct kind *k = kind_of(
		OBJECT("'properties':{'a':{'type':'integer','maximum':1},'b':{'type':'string'}}"));
	autoptr(json_doc) old = doc("{'spec':{'a':5,'b':'x'}}");
	autoptr(json_doc) other = doc("{'spec':{'a':5,'b':'y'}}");
	autoptr(json_doc) worse = doc("{'spec':{'a':6,'b':'y'}}");
	struct causes c = { 0 };

	schema_validate(json_root(other), k->type, json_root(old), &c);
	eq_int(c.n, 0);
	schema_validate(json_root(worse), k->type, json_root(old), &c);
	eq_int(c.n, 1);
	causes_done(&c);
	kind_unref(k);
}

static void refused(const char *schema, const char *field)
{
	autoptr(kinds) ks = kinds_new();
	autoptr(json_doc) d = definition("toys", "Toy", schema);
	struct causes c = { 0 };
	bool found = false;

	crd_defaults(d, NULL);
	crd_settle(d, ks, 0);
	crd_validate(json_root(d), NULL, &c);
	for (size_t i = 0; i < c.n; i++)
		found |= str_eq(c.list[i].field, field);
	if (!found)
		print_error("%s is not among %zu causes: %s %s\n", field, c.n,
			    c.n ? c.list[0].field : "", c.n ? c.list[0].message : "");
	is_true(found);
	causes_done(&c);
}

#define AT "spec.validation.openAPIV3Schema"

TEST(a_schema_that_is_not_structural_is_refused_where_it_is_not)
{
	refused("{}", AT ".type");
	refused("{'type':'string'}", AT ".type");
	refused("{'type':'object','properties':{'a':{}}}", AT ".properties[a].type");
	refused("{'type':'object','properties':{'a':{'type':'array'}}}", AT ".properties[a].items");
	refused("{'type':'object','$ref':'#/x'}", AT ".$ref");
	refused("{'type':'object','properties':{'a':{'type':'string','pattern':'['}}}",
		AT ".properties[a].pattern");
	refused("{'type':'object','properties':{'a':{'type':'integer','default':'x'}}}",
		AT ".properties[a].default");
	refused("{'type':'object','properties':{'a':{'type':'object','default':{'b':1}}}}",
		AT ".properties[a].default");
	refused("{'type':'object','anyOf':[{'properties':{'b':{'minimum':1}}}]}",
		AT ".properties[b]");
	refused("{'type':'object','properties':{'a':{'type':'string','allOf':[{'type':'string'}]}}}",
		AT ".properties[a].allOf[0].type");
	refused("{'type':'object','properties':{'metadata':{'type':'object','properties':{'labels':{"
		"'type':'object'}}}}}",
		AT ".properties[metadata]");
	refused("{'type':'object','additionalProperties':{'type':'string'}}",
		AT ".additionalProperties");
	refused("{'type':'object','properties':{'a':{'type':'array','items':{'type':'object'},"
		"'x-kubernetes-list-type':'map'}}}",
		AT ".properties[a].x-kubernetes-list-map-keys");
}

/* Many alternatives for each of many elements: the product is what it would take. */
static void costs_too_much(const char *type, const char *alternative, const char *element)
{
	autobuf schema = { 0 }, value = { 0 };
	autoptr(custom) c = NULL;
	autoptr(json_doc) d = NULL;
	autoptr(json_doc) v = NULL;
	struct causes causes = { 0 };
	autofree char *text = NULL;

	buf_printf(&schema, "{'type':'array','items':{'type':'%s','anyOf':[", type);
	for (int i = 0; i < 2000; i++)
		buf_printf(&schema, "%s%s", i ? "," : "", alternative);
	buf_add_str(&schema, ",{}]}}"); /* the last one fits */
	buf_add_char(&value, '[');
	for (int i = 0; i < 20000; i++)
		buf_printf(&value, "%s%s", i ? "," : "", element);
	buf_add_char(&value, ']');
	d = doc(buf_str(&schema));
	v = doc(buf_str(&value));
	works(custom_new(json_root(d), &c));
	custom_validate(json_root(v), c, NULL, &causes);
	text = causes_text(&causes);
	is_true(strstr(text, "takes more than 5000000 steps") != NULL);
	causes_done(&causes);
}

TEST(what_an_object_costs_has_a_limit)
{
	costs_too_much("string", "{'pattern':'^(a+)+b$'}", "'aaaaaaaaaaaaaaaaaaaaaaaa'");
	costs_too_much("integer", "{'minimum':5}", "1");
}

TEST(a_schema_of_too_many_parts_is_refused)
{
	autobuf b = { 0 };
	autoptr(json_doc) d = NULL;
	struct custom *c = NULL;
	struct err *e;

	buf_add_str(&b, "{\"type\":\"object\",\"properties\":{");
	for (int i = 0; i < CUSTOM_NODES_MAX; i++)
		buf_printf(&b, "%s\"p%d\":{\"type\":\"string\"}", i ? "," : "", i);
	buf_add_str(&b, "}}");
	works(json_parse(buf_str(&b), b.len, NULL, &d));
	e = custom_new(json_root(d), &c);
	is_true(err_is(e, ERR_TOO_LARGE));
	err_free(e);
}

TEST(a_name_that_is_taken_is_not_given)
{
	autoptr(kinds) ks = kinds_new();
	struct kind *k = kind_of("{'type':'object'}");
	autoptr(json_doc) same = definition("dolls", "Toy", "{'type':'object'}");
	autoptr(json_doc) other = definition("dolls", "Doll", "{'type':'object'}");
	const struct json *conditions;

	works(kinds_add(ks, k));
	crd_defaults(same, NULL);
	crd_settle(same, ks, 0);
	is_false(crd_established(json_root(same)));
	is_false(crd_names_accepted(json_root(same)));
	conditions = json_at_path(json_root(same), "status.conditions");
	eq_str(json_get_str(json_at(conditions, 0), "reason"), "ListKindConflict");
	crd_defaults(other, NULL);
	crd_settle(other, ks, 0);
	is_true(crd_established(json_root(other)));
	works(kinds_remove(ks, k));
	crd_settle(same, ks, 0);
	is_true(crd_established(json_root(same)));
	kind_unref(k);
}

TEST(our_own_kinds_are_valid_definitions)
{
	autoptr(kinds) ks = kinds_new();
	const struct kind *crd =
		kinds_need(ks, "apiextensions.k8s.io/v1", "CustomResourceDefinition");
	size_t n, found = 0;
	const struct kind *const *all = kinds_all(ks, &n);

	for (size_t i = 0; i < n; i++) {
		autoptr(json_doc) d = NULL;
		struct causes c = { 0 };

		if (!crd_is_own(all[i]))
			continue;
		found++;
		d = crd_of_own(ks, all[i]);
		decode(d, crd->type, &c);
		crd_defaults(d, NULL);
		crd_settle(d, ks, 0);
		is_true(crd_established(json_root(d)));
		crd_validate(json_root(d), NULL, &c);
		if (c.n)
			print_error("%s: %s %s\n", all[i]->kind, c.list[0].field,
				    c.list[0].message);
		eq_int(c.n, 0);
		causes_done(&c);
	}
	eq_int(found, 14);
	is_true(crd_own(ks, "sandboxes.agents.x-k8s.io") != NULL);
	is_true(crd_own(ks, "pods") == NULL);
}

static void count_warning(void *arg, const char *text)
{
	size_t *n = arg;

	if (strstr(text, "spec.versions[0].schema.openAPIV3Schema.properties[spec]."
			 "x-kubernetes-validations"))
		++*n;
}

TEST(rules_in_cel_are_warned_about)
{
	autoptr(json_doc) d =
		definition("toys", "Toy", OBJECT("'x-kubernetes-validations':[{'rule':'true'}]"));
	size_t n = 0;

	crd_warn(json_root(d), count_warning, &n);
	eq_int(n, 1);
}
