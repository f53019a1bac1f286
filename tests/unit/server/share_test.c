/* SPDX-License-Identifier: Apache-2.0 */
#include "api/schema.h"
#include "base/bytes.h"
#include "fixture.h"
#include "kinds.h"

/*
 * A write shares what it does not change with the state before, and what is shared is not looked at
 * again. Nobody may be able to tell: the same random patches go to two objects, of which one is
 * told before each that it was not checked yet, so that nothing of it is shared or skipped.
 */
enum {
	ROUNDS = 500,
	DEPTH_MAX = 5,
};

static uint64_t seed;

static unsigned pick(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return n ? (unsigned)(seed >> 33) % n : 0;
}

/* Values */

static struct json *some_text(struct json_doc *d, const struct type *t)
{
	static const char *const words[] = { "a",      "b",       "web-1", "TCP",  "",
					     "Always", "No Name", "x.y/z", "True", "c" };
	size_t n = 0;

	while (t->values && t->values[n])
		n++;
	if (n && pick(8))
		return json_new_str(d, t->values[pick((unsigned)n)]);
	return json_new_str(d, words[pick(ARRAY_LEN(words))]);
}

static struct json *some_value(struct json_doc *d, const struct type *t, int depth);

static struct json *some_members(struct json_doc *d, const struct type *t, int depth)
{
	struct json *o = json_obj(d);

	for (const struct field *f = t->fields; f->name; f++)
		if ((f->flags & FIELD_REQUIRED) ? pick(12) : !pick(5))
			(void)json_set(d, o, f->name, some_value(d, f->type, depth + 1));
	return o;
}

static struct json *some_entries(struct json_doc *d, const struct type *t, int depth)
{
	static const char *const keys[] = { "app", "tier", "example.com/role", "cpu", "Bad Key" };
	struct json *o = json_obj(d);

	for (unsigned n = pick(4); n--;)
		(void)json_set(d, o, keys[pick(12) ? pick(4) : 4],
			       some_value(d, t->elem, depth + 1));
	return o;
}

static struct json *some_value(struct json_doc *d, const struct type *t, int depth)
{
	struct json *list;

	if (depth > DEPTH_MAX || !pick(40))
		return json_new_null(d);
	switch (pick(60) ? t->kind : TYPE_BOOL) {
	case TYPE_STRING:
		return some_text(d, t);
	case TYPE_BOOL:
		return json_new_bool(d, pick(2));
	case TYPE_INT32:
	case TYPE_INT64:
	case TYPE_NUMBER:
	case TYPE_INT_OR_STRING:
		return json_new_int(d, pick(6) ? (int)pick(9000) : -1);
	case TYPE_QUANTITY:
		return json_new_str(d, pick(3) ? "500m" : pick(2) ? "0.5" : "1024Mi");
	case TYPE_TIME:
	case TYPE_MICRO_TIME:
		return json_new_str(d, pick(3) ? "2030-01-02T03:04:05Z"
					       : "2030-01-02T03:04:05.000006+01:00");
	case TYPE_BYTES:
		return json_new_str(d, pick(6) ? "YWJj" : "?");
	case TYPE_OBJECT:
		return some_members(d, t, depth);
	case TYPE_MAP:
		return some_entries(d, t, depth);
	case TYPE_LIST:
		list = json_arr(d);
		for (unsigned n = pick(3); n--;)
			json_push(d, list, some_value(d, t->elem, depth + 1));
		return list;
	case TYPE_ANY:
	case TYPE_KIND_MAX_:
		break;
	}
	return json_obj(d);
}

/* Patches */

static const struct field *some_field(const struct type *t)
{
	size_t n = 0;

	while (t->fields[n].name)
		n++;
	return &t->fields[pick((unsigned)n)];
}

/* A merge patch, also good as a strategic one: mostly deep inside what there is. */
static struct json *some_merge(struct json_doc *d, const struct json *have, const struct type *t,
			       int depth)
{
	struct json *o = json_obj(d);

	for (unsigned n = 1 + !pick(3); n--;) {
		const struct field *f = some_field(t);
		const struct json *old = json_get(have, f->name);

		if (f->type->kind == TYPE_OBJECT && old && pick(8))
			(void)json_set(d, o, f->name, some_merge(d, old, f->type, depth + 1));
		else if (f->type->kind == TYPE_MAP || pick(3))
			(void)json_set(d, o, f->name, some_value(d, f->type, depth + 1));
		else
			(void)json_set(d, o, f->name, json_new_null(d));
	}
	return o;
}

/* What two objects that were made alike differ in, in their metadata. */
static const char *const unlike[] = { "namespace", "uid", "resourceVersion", "creationTimestamp",
				      NULL };

/* The path of something in have, in buf; returns its type as far as a table knows it. */
static const struct type *some_path(const struct json *have, const struct type *t, struct buf *path)
{
	while (json_len(have) && (!path->len || pick(5))) {
		struct json_iter it = { .of = have };
		const struct field *f;

		for (unsigned n = 1 + pick((unsigned)json_len(have)); n--;)
			(void)json_next(&it);
		if (it.key && (strchr(it.key, '/') || str_in(it.key, unlike)))
			break;
		f = it.key && t && t->kind == TYPE_OBJECT ? schema_field(t, it.key) : NULL;
		t = f ? f->type : t && t->kind != TYPE_OBJECT ? t->elem : NULL;
		if (it.key)
			buf_printf(path, "/%s", it.key);
		else
			buf_printf(path, "/%zu", it.i - 1);
		have = it.val;
	}
	return t;
}

static struct json *some_step(struct json_doc *d, const struct json *have, const struct type *t)
{
	static const char *const names[] = { "add", "remove", "replace", "copy", "move", "test" };
	struct json *o = json_obj(d);
	autobuf path = { 0 }, from = { 0 };
	const struct type *of = some_path(have, t, &path);

	(void)some_path(have, t, &from);
	json_set_str(d, o, "op", names[pick(ARRAY_LEN(names))]);
	json_set_str(d, o, "path", buf_str(&path));
	json_set_str(d, o, "from", str_eq(buf_str(&from), "/metadata") ? "/kind" : buf_str(&from));
	(void)json_set(d, o, "value", some_value(d, of ? of : &type_any, 2));
	return o;
}

static struct json_doc *some_patch(const struct object *o, enum patch_type how)
{
	struct json_doc *d = json_doc_new();
	struct json *steps = json_arr(d);

	if (how != PATCH_JSON) {
		json_set_root(d, some_merge(d, o->root, o->kind->type, 0));
		return d;
	}
	for (unsigned n = 1 + !pick(3); n--;)
		json_push(d, steps, some_step(d, o->root, o->kind->type));
	json_set_root(d, steps);
	return d;
}

/* Comparing */

static const char *const rows[][2] = {
	{ "Pod", "{'metadata':{'name':'o','labels':{'app':'a'},'finalizers':['a.b/c']},'spec':{"
		 "'containers':[{'name':'c','image':'i:1','env':[{'name':'A','value':'1'}],"
		 "'resources':{'limits':{'cpu':'1'}},'ports':[{'containerPort':80}]}],"
		 "'volumes':[{'name':'v'},{'name':'w','configMap':{'name':'x'}}],"
		 "'tolerations':[{'key':'k','operator':'Exists'}]}}" },
	{ "Sandbox",
	  "{'metadata':{'name':'o','annotations':{'a':'b'}},'spec':{'podTemplate':{'metadata':{"
	  "'labels':{'app':'a'}},'spec':{'containers':[{'name':'c','image':'i','ports':["
	  "{'containerPort':80,'name':'http'}],'env':[{'name':'A','value':'1'}]}]}},"
	  "'service':true}}" },
	{ "agents.x-k8s.io/v1alpha1 Sandbox",
	  "{'apiVersion':'agents.x-k8s.io/v1alpha1','kind':'Sandbox','metadata':{'name':'p'},"
	  "'spec':{'podTemplate':{'spec':{'containers':[{'name':'c','image':'i'}]}}}}" },
	{ "SandboxTemplate", "{'metadata':{'name':'o'},'spec':{'podTemplate':{'spec':{'containers':"
			     "[{'name':'c','image':'i'},{'name':'d','image':'j'}]}}}}" },
	{ "SandboxClaim", "{'metadata':{'name':'o','labels':{'app':'a','b':'c'}},'spec':{"
			  "'sandboxTemplateRef':{'name':'t'},'warmPoolRef':{'name':'p'}}}" },
	{ "SandboxWarmPool", "{'metadata':{'name':'o'},'spec':{'replicas':2,'sandboxTemplateRef':"
			     "{'name':'t'}}}" },
	/* Without an address: the twins would get different ones. */
	{ "Service",
	  "{'metadata':{'name':'o'},'spec':{'clusterIP':'None','selector':{'app':'a'},'ports':[{'port':80,"
	  "'name':'a'},{'port':81,'name':'b'}]}}" },
	{ "PersistentVolumeClaim",
	  "{'metadata':{'name':'o'},'spec':{'accessModes':['ReadWriteOnce'],'resources':{"
	  "'requests':{'storage':'1Gi'}}}}" },
	{ "Secret", "{'metadata':{'name':'o'},'stringData':{'a':'b'},'data':{'c':'YWJj'}}" },
	{ "ConfigMap", "{'metadata':{'name':'o'},'data':{'a':'b','c':'d'}}" },
	{ "Event",
	  "{'metadata':{'name':'o'},'involvedObject':{'kind':'Pod','name':'a','namespace':'x'},"
	  "'eventTime':'2026-01-01T00:00:00.000000Z','reportingComponent':'c',"
	  "'reportingInstance':'i','action':'a','reason':"
	  "'Because','message':'text','type':'Normal','count':1}" },
	{ "EndpointSlice",
	  "{'metadata':{'name':'o'},'addressType':'IPv4','endpoints':[{'addresses':"
	  "['10.0.0.1']}],'ports':[{'port':80}]}" },
	{ "NetworkPolicy",
	  "{'metadata':{'name':'o'},'spec':{'podSelector':{'matchLabels':{'a':'b'}},"
	  "'ingress':[{'ports':[{'port':80}]}]}}" },
	{ "Lease", "{'metadata':{'name':'o'},'spec':{'holderIdentity':'a','leaseDurationSeconds':"
		   "15}}" },
};

static char *comparable(const struct object *o)
{
	autoptr(json_doc) d = NULL;
	struct json *meta;

	if (!o)
		return xstrdup("none");
	d = object_edit(o);
	meta = json_get(json_root(d), "metadata");
	for (size_t i = 0; unlike[i]; i++)
		json_set_str(d, meta, unlike[i], "-");
	return json_to_text(json_root(d));
}

/* An error text without the object that it may quote, and without what only one twin has. */
static char *told(const struct err *e, const struct object *o)
{
	autobuf out = { 0 };
	const char *at = e ? err_text(e) : "none";

	while (*at) {
		if (str_starts(at, "\"{"))
			for (at++; *at && (*at != '"' || at[-1] == '\\');)
				at++;
		if (str_starts(at, o->uid))
			at += strlen(o->uid);
		if (*at)
			buf_add_char(&out, *at++);
	}
	return buf_steal(&out, NULL);
}

struct twins {
	struct fixture f;
	const struct kind *kind;
	const char *name;
	unsigned n_written, n_refused;
};

static struct err *patch(struct twins *t, const char *ns, enum patch_type how, const char *sub,
			 const struct json_doc *what)
{
	const struct client_ref to = { t->kind, ns, t->name, sub };
	struct outcome o;
	struct json_doc *d = json_doc_new();

	outcome_init(&o);
	json_set_root(d, json_copy(d, json_root(what)));
	client_patch(t->f.client, &to, how, d, &o.write);
	object_unref(o.obj);
	return o.e;
}

/* An object that somebody holds stays what it was. */
static void check_unchanged(struct object *o)
{
	autofree char *now = json_to_text(o->root);

	eq_str(now, object_text(o)->data);
}

static void one_round(struct twins *t)
{
	enum patch_type how = t->kind->flags & KIND_CRD ? (pick(2) ? PATCH_JSON : PATCH_MERGE)
							: (enum patch_type)pick(PATCH_APPLY);
	const char *sub = t->kind->flags & KIND_STATUS && !pick(3) ? "status" : NULL;
	autoptr(object) a = look(&t->f, t->kind, "aa", t->name);
	autoptr(object) b = look(&t->f, t->kind, "bb", t->name);
	autoptr(object) a_next = NULL;
	autoptr(object) b_next = NULL;
	autoptr(json_doc) what = some_patch(a, how);
	autoptr(err) e_a = NULL;
	autoptr(err) e_b = NULL;
	autofree char *text_a = NULL, *text_b = NULL, *told_a = NULL, *told_b = NULL;

	b->settled = false;
	e_a = patch(t, "aa", how, sub, what);
	e_b = patch(t, "bb", how, sub, what);
	told_a = told(e_a, a);
	told_b = told(e_b, b);
	eq_str(told_a, told_b);
	a_next = look(&t->f, t->kind, "aa", t->name);
	b_next = look(&t->f, t->kind, "bb", t->name);
	text_a = comparable(a_next);
	text_b = comparable(b_next);
	eq_str(text_a, text_b);
	check_unchanged(a);
	t->n_written += !e_a && a_next != a;
	t->n_refused += e_a != NULL;
}

static void make_twins(struct twins *t, const char *text)
{
	works(make(&t->f, t->kind, "aa", text, NULL));
	works(make(&t->f, t->kind, "bb", text, NULL));
}

TEST(what_a_patch_shares_cannot_be_told_from_what_it_copies)
{
	struct twins t = { 0 };

	fixture_init(&t.f);
	works(make(&t.f, kind_named("Namespace"), "", "{'metadata':{'name':'aa'}}", NULL));
	works(make(&t.f, kind_named("Namespace"), "", "{'metadata':{'name':'bb'}}", NULL));
	for (int i = 0; i < 2; i++) /* there is no controller to do it */
		works(make(&t.f, kind_named("ServiceAccount"), i ? "aa" : "bb",
			   "{'metadata':{'name':'default'}}", NULL));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		t.kind = kind_named(rows[i][0]);
		t.name = t.kind->storage ? "p" : "o";
		t.n_written = t.n_refused = 0;
		seed = i + 1;
		make_twins(&t, rows[i][1]);
		for (unsigned n = 0; n < ROUNDS; n++)
			one_round(&t);
		print_message("# %s: %u written, %u refused\n", rows[i][0], t.n_written,
			      t.n_refused);
		is_true(t.n_written > 2);
	}
	fixture_done(&t.f);
}

TEST(a_default_that_a_patch_takes_away_comes_back)
{
	const struct client_ref to = { kind_named("Namespace"), "", "aa" };
	static const char label[] = "kubernetes.io/metadata.name";
	autoptr(object) o = NULL;
	struct fixture f;

	fixture_init(&f);
	works(make(&f, to.kind, "", "{'metadata':{'name':'aa'}}", NULL));
	works(merge(&f, &to, "{'metadata':{'labels':null,'annotations':{'a':'b'}}}"));
	o = look(&f, to.kind, "", "aa");
	eq_str(object_label(o, label), "aa");
	eq_str(object_annotation(o, "a"), "b");
	fixture_done(&f);
}
