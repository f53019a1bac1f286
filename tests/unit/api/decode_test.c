/* SPDX-License-Identifier: Apache-2.0 */
#include "api_test.h"
#include "base/buf.h"
#include "kinds.h"

/* ' stands for " in all texts. */
static char *quoted(const char *text)
{
	char *copy = xstrdup(text);

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	return copy;
}

static struct err *read_text(const struct kind *k, const char *text, struct causes *odd,
			     struct json_doc **ret)
{
	autofree char *body = quoted(text);
	const struct decode_input in = { DECODE_JSON, body, strlen(body), NULL };

	return schema_decode(k->type, &in, odd, ret);
}

/* The texts are Go's; what a kube-apiserver says of them is in tests/data/decode. */
TEST(what_cannot_be_read_is_told_in_go_words)
{
	static const struct {
		const char *kind, *text, *want;
	} rows[] = {
		{ "Pod", "{'spec':{'containers':[{'stdin':1}]}}",
		  "json: cannot unmarshal number into Go struct field "
		  "Container.spec.containers.stdin of type bool" },
		{ "Pod", "{'spec':{'volumes':[{'emptyDir':'x'}]}}",
		  "json: cannot unmarshal string into Go struct field "
		  "Volume.spec.volumes.VolumeSource.emptyDir of type v1.EmptyDirVolumeSource" },
		{ "Pod", "{'spec':{'containers':[{'imagePullPolicy':{}}]}}",
		  "json: cannot unmarshal object into Go struct field "
		  "Container.spec.containers.imagePullPolicy of type v1.PullPolicy" },
		{ "PersistentVolumeClaim", "{'spec':{'accessModes':[1]}}",
		  "json: cannot unmarshal number into Go struct field "
		  "PersistentVolumeClaimSpec.spec.accessModes of type "
		  "v1.PersistentVolumeAccessMode" },
		{ "Pod", "{'spec':{'containers':[{'ports':[{'containerPort':80.5}]}]}}",
		  "json: cannot unmarshal number 80.5 into Go struct field "
		  "ContainerPort.spec.containers.ports.containerPort of type int32" },
		{ "Pod", "{'spec':{'containers':[{'ports':[{'containerPort':2147483648}]}]}}",
		  "json: cannot unmarshal number 2147483648 into Go struct field "
		  "ContainerPort.spec.containers.ports.containerPort of type int32" },
		{ "Sandbox", "{'metadata':{'labels':{'a':1}}}",
		  "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type "
		  "string" },
		{ "Sandbox", "{'metadata':'x'}",
		  "json: cannot unmarshal string into Go value of type v1.ObjectMeta" },
		{ "ConfigMap", "{'metadata':{'creationTimestamp':'2020-02-30T00:00:00Z'}}",
		  "parsing time \"2020-02-30T00:00:00Z\": day out of range" },
		{ "ConfigMap", "{'metadata':{'creationTimestamp':'2020-02-03 00:00:00Z'}}",
		  "parsing time \"2020-02-03 00:00:00Z\" as \"2006-01-02T15:04:05Z07:00\": cannot "
		  "parse \" 00:00:00Z\" as \"T\"" },
		{ "ConfigMap", "{'data':'x','data':{'a':'1'}}",
		  "json: cannot unmarshal string into Go struct field ConfigMap.data of type "
		  "map[string]string" },
		{ "Secret", "{'data':{'a':'YQ='}}", "illegal base64 data at input byte 3" },
		{ "Secret", "{'data':{'a':'YQ'}}", "illegal base64 data at input byte 0" },
		{ "Secret", "{'data':{'a':'YQ=a'}}", "illegal base64 data at input byte 2" },
		{ "Pod", "{'spec':{'containers':[{'stdin':1,'resources':{'limits':{'cpu':'x'}}}]}}",
		  "quantities must match the regular expression "
		  "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = NULL;
		struct err *e = read_text(kind_named(rows[i].kind), rows[i].text, NULL, &d);

		is_true(err_is(e, ERR_MALFORMED));
		eq_str(err_text(e), rows[i].want);
		err_free(e);
	}
}

TEST(what_is_no_json_is_told_in_go_words)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "", "unexpected end of JSON input" },
		{ "{'a'", "unexpected end of JSON input" },
		{ "{'a':1", "unexpected end of JSON input" },
		{ "{'a':tru", "unexpected end of JSON input" },
		{ "hello", "invalid character 'h' looking for beginning of value" },
		{ "{a:1}", "invalid character 'a' looking for beginning of object key string" },
		{ "{'a' 1}", "invalid character '1' after object key" },
		{ "{'a':1 'b'}", "invalid character '\"' after object key:value pair" },
		{ "{'a':1,}", "invalid character '}' looking for beginning of object key string" },
		{ "[1 2]", "invalid character '2' after array element" },
		{ "[1,]", "invalid character ']' looking for beginning of value" },
		{ "{}x", "invalid character 'x' after top-level value" },
		{ "{'a':'\\x'}", "invalid character 'x' in string escape code" },
		{ "{'a':'\\u00g'}", "invalid character 'g' in \\u hexadecimal character escape" },
		{ "{'a':'\n'}", "invalid character '\\n' in string literal" },
		{ "{'a':trux}", "invalid character 'x' in literal true (expecting 'e')" },
		{ "{'a':-x}", "invalid character 'x' in numeric literal" },
		{ "{'a':1.x}", "invalid character 'x' after decimal point in numeric literal" },
		{ "{'a':1ex}", "invalid character 'x' in exponent of numeric literal" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = NULL;
		struct err *e = read_text(kind_named("ConfigMap"), rows[i].text, NULL, &d);

		is_true(err_is(e, ERR_MALFORMED));
		eq_str(err_text(e), rows[i].want);
		err_free(e);
	}
}

TEST(what_is_read_is_what_go_would_write)
{
	static const struct {
		const char *kind, *text, *want;
	} rows[] = {
		/* null */
		{ "ConfigMap", "{'data':null,'metadata':{'name':null,'labels':{'a':null}}}",
		  "{'metadata':{'labels':{'a':''}}}" },
		{ "Secret", "{'data':{'a':null}}", "{'data':{'a':''}}" },
		{ "Pod", "{'spec':{'containers':[null,{'command':[null]}]}}",
		  "{'spec':{'containers':[{},{'command':['']}]}}" },
		{ "Pod", "{'spec':{'overhead':{'cpu':null,'memory':1024}}}",
		  "{'spec':{'overhead':{'cpu':'0','memory':'1024'}}}" },
		{ "ConfigMap", "null", "{}" },
		/* empties, omitted and behind pointers */
		{ "Pod",
		  "{'spec':{'hostname':'','hostNetwork':false,'volumes':[],'priority':0,"
		  "'nodeSelector':{},'affinity':{},'containers':[]}}",
		  "{'spec':{'priority':0,'affinity':{},'containers':[]}}" },
		{ "ConfigMap", "{'immutable':false,'data':{}}", "{'immutable':false}" },
		/* times and quantities in one form */
		{ "ConfigMap", "{'metadata':{'creationTimestamp':'2020-01-01T01:00:00.5+01:00'}}",
		  "{'metadata':{'creationTimestamp':'2020-01-01T00:00:00Z'}}" },
		/* twice */
		{ "ConfigMap",
		  "{'metadata':{'name':'a','labels':{'a':'1'}},"
		  "'metadata':{'labels':{'b':'2'}},'data':{'a':'1'},'data':{'a':'2'}}",
		  "{'metadata':{'name':'a','labels':{'a':'1','b':'2'}},'data':{'a':'2'}}" },
		{ "ConfigMap", "{'metadata':{'name':'a','name':null},'data':{'a':'1'},'data':null}",
		  "{'metadata':{'name':'a'}}" },
		{ "ConfigMap", "{'metadata':{'name':'a','name':''}}", "{'metadata':{}}" },
		/* a custom resource keeps what it was given, except nulls and what is unknown */
		{ "Sandbox",
		  "{'spec':{'x':1,'podTemplate':{'spec':{'containers':[{'command':[],"
		  "'workingDir':'','image':null}],'nodeSelector':{'a':null}}}}}",
		  "{'spec':{'podTemplate':{'spec':{'containers':[{'command':[],'workingDir':''}],"
		  "'nodeSelector':{}}}}}" },
		{ "Sandbox", "{'metadata':{'labels':{},'name':'a','name':'b'},'spec':null}",
		  "{'metadata':{'name':'b'}}" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = NULL;

		works(read_text(kind_named(rows[i].kind), rows[i].text, NULL, &d));
		eq_json(json_root(d), rows[i].want);
	}
}

TEST(odd_members_are_reported_in_kubernetes_order)
{
	static const struct {
		const char *kind, *text, *want;
	} rows[] = {
		{ "ConfigMap", "{'nope':{'a':1,'a':2},'nope':1,'metadata':{'name':'a','name':'b'}}",
		  "unknown field \"nope\" duplicate field \"metadata.name\" " },
		{ "Pod", "{'spec':{'containers':[{'x':1,'env':[{'name':'a','name':'b'}]}]}}",
		  "unknown field \"spec.containers[0].x\" "
		  "duplicate field \"spec.containers[0].env[0].name\" " },
		{ "ConfigMap", "{'data':{'a':'1','a':'2','a':'3'}}",
		  "duplicate field \"data.a\" " },
		{ "Sandbox", "{'spec':{'b':1,'b':2,'a':[{'c':1,'c':1}]},'metadata':{'z':1}}",
		  "duplicate field \"spec.b\" duplicate field \"spec.a[0].c\" "
		  "unknown field \"metadata.z\" unknown field \"spec.a\" "
		  "unknown field \"spec.b\" " },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = NULL;
		struct causes odd = { 0 };
		autobuf said = { 0 };

		works(read_text(kind_named(rows[i].kind), rows[i].text, &odd, &d));
		for (size_t j = 0; j < odd.n; j++)
			buf_printf(&said, "%s ", odd.list[j].message);
		eq_str(buf_str(&said), rows[i].want);
		causes_done(&odd);
	}
}

/* Members that a peer repeats as often as it likes. */
TEST(very_many_duplicates_are_quick)
{
	autobuf text = { 0 };
	autoptr(json_doc) d = NULL;

	buf_add_str(&text, "{'data':{");
	for (int i = 0; i < 50000; i++)
		buf_printf(&text, "'k%d':'','a':'',", i);
	buf_add_str(&text, "'z':''}");
	for (int i = 0; i < 50000; i++)
		buf_printf(&text, ",'u%d':1,'kind':''", i);
	buf_add_char(&text, '}');
	works(read_text(kind_named("ConfigMap"), buf_str(&text), NULL, &d));
	eq_int(json_len(json_get(json_root(d), "data")), 50002);
}

static struct err *read_object(const char *kind, const char *text, enum strictness how,
			       struct json_doc **ret)
{
	autofree char *body = quoted(text);
	const struct decode_request r = {
		.in = { DECODE_JSON, body, strlen(body), NULL },
		.strictness = how,
	};

	return object_decode(kind_named(kind), &r, ret);
}

TEST(an_object_says_what_it_is)
{
	static const struct {
		const char *kind, *text, *want;
	} rows[] = {
		{ "ConfigMap", "",
		  "the object provided is unrecognized (must be of type ConfigMap): "
		  "couldn't get version/kind; json parse error: unexpected end of "
		  "JSON input (<empty>)" },
		{ "ConfigMap", "{'kind':5}",
		  "the object provided is unrecognized (must be of type ConfigMap): couldn't get "
		  "version/kind; json parse error: json: cannot unmarshal number into Go struct "
		  "field .kind of type string ({\"kind\":5})" },
		{ "ConfigMap", "{'kind':'Nope'}",
		  "Nope in version \"v1\" cannot be handled as a ConfigMap: no kind \"Nope\" is "
		  "registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\"" },
		{ "ConfigMap", "{'x':1,'data':{'a':'1','a':'2'}}",
		  "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding "
		  "error: unknown field \"x\", duplicate field \"data.a\"" },
		{ "ConfigMap", "{'data':5}",
		  "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot "
		  "unmarshal number into Go struct field ConfigMap.data of type "
		  "map[string]string" },
		{ "Sandbox", "{}",
		  "the object provided is unrecognized (must be of type Sandbox): "
		  "Object 'Kind' is missing in '{}' ({})" },
		{ "Sandbox", "{'kind':'Sandbox'}",
		  "the API version in the data () does not match the expected API version "
		  "(agents.x-k8s.io/v1beta1)" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(json_doc) d = NULL;
		struct err *e = read_object(rows[i].kind, rows[i].text, STRICTNESS_STRICT, &d);

		is_true(err_is(e, ERR_MALFORMED));
		eq_str(err_text(e), rows[i].want);
		err_free(e);
	}
}

TEST(an_object_that_does_not_say_is_what_was_expected)
{
	autoptr(json_doc) d = NULL;

	works(read_object("ConfigMap", "{'x':1}", STRICTNESS_IGNORE, &d));
	eq_json(json_root(d), "{'apiVersion':'v1','kind':'ConfigMap'}");
}

TEST(a_patch_is_at_fault_for_what_it_made)
{
	struct causes causes = { 0 };
	const struct decode_request r = {
		.in = { .media = DECODE_TREE, .tree = doc("{'data':5}") },
		.patch_causes = &causes,
	};
	autoptr(json_doc) d = NULL;
	struct err *e = object_decode(kind_named("ConfigMap"), &r, &d);

	is_true(err_is(e, ERR_INVALID));
	eq_str(err_text(e), " \"\" is invalid: patch: Invalid value: \"{\\\"data\\\":5}\": json: "
			    "cannot unmarshal number into Go struct field ConfigMap.data of type "
			    "map[string]string");
	eq_str(causes.list[0].field, "patch");
	causes_done(&causes);
	err_free(e);
}

TEST(odd_members_of_a_patch_are_reported)
{
	static const char steps[] = "[{\"op\":\"add\",\"path\":\"/a\",\"value\":1,\"value\":2,"
				    "\"what\":3}]";
	static const char merge[] = "{\"a\":{\"b\":1,\"b\":2}}";
	autoptr(json_doc) d = NULL;
	autoptr(json_doc) m = NULL;
	struct causes odd = { 0 };

	works(patch_decode(steps, strlen(steps), true, &odd, &d));
	eq_json(json_root(d), "[{'op':'add','path':'/a','value':2}]");
	works(patch_decode(merge, strlen(merge), false, &odd, &m));
	eq_json(json_root(m), "{'a':{'b':2}}");
	eq_int(odd.n, 3);
	eq_str(odd.list[0].message, "json patch duplicate field \"[0].value\"");
	eq_str(odd.list[1].message, "json patch unknown field \"[0].what\"");
	eq_str(odd.list[2].message, "duplicate field \"a.b\"");
	causes_done(&odd);
}
