/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <unistd.h>

#include "api/decode.h"
#include "api/kind.h"
#include "api/registry.h"
#include "base/bytes.h"
#include "base/map.h"
#include "base/str.h"
#include "json/json.h"
#include "server/data/check_priv.h"
#include "server/data/data.h"
#include "server/objects/objects.h"
#include "store/store.h"

/*
 * `cay fsck`: the store below (pages, checksums, revisions) is asked what is wrong with it; here
 * every object is decoded as its kind, and compared with its key, its revision and its owners.
 */
enum {
	FINDINGS_MAX = 1000,
};
static const char fix_object[] =
	"restore a backup (`cay restore --force`); or stop the server, keep a copy of the directory "
	"and remove the object's row: sqlite3 DIR/store.db \"DELETE FROM objects WHERE key = "
	"'KEY'\"";
static const char fix_file[] =
	"stop the server, keep a copy of the directory, and restore a backup (`cay restore --force`) "
	"or try `sqlite3 DIR/store.db .recover`";

/* An object that says who owns it; the owner may come later. */
struct owned {
	char *key, *owner_uid, *owner;
};

struct check {
	struct findings findings;
	struct kinds *kinds;
	struct map *uids;       /* uid → key */
	struct map *namespaces; /* name → itself */
	struct map *spaces;     /* namespace → a key in it */
	struct map *unknown;    /* resource → a key */
	struct owned *owned;
	size_t n_owned;
};

void findings_add(struct findings *f, enum finding severity, const char *what, const char *message,
		  const char *fix)
{
	struct json *o;

	f->faults += severity == FINDING_FAULT;
	if (json_len(f->list) >= FINDINGS_MAX) {
		f->dropped++;
		return;
	}
	o = json_obj(f->doc);
	json_set_str(f->doc, o, "severity", severity == FINDING_FAULT ? "fault" : "note");
	json_set_str(f->doc, o, "what", what);
	json_set_str(f->doc, o, "message", message);
	json_set_str(f->doc, o, "fix", fix);
	json_push(f->doc, f->list, o);
}

static void object_fault(struct check *c, const char *key, char *message)
{
	autofree char *owned_text = message;

	findings_add(&c->findings, FINDING_FAULT, key, owned_text, fix_object);
}

static void on_fault(void *arg, const char *key, const char *text)
{
	struct check *c = arg;

	findings_add(&c->findings, FINDING_FAULT, key ? key : "store.db", text,
		     key ? fix_object : fix_file);
}

static void compare(struct check *c, const char *key, const char *field, const char *is,
		    const char *want)
{
	if (!str_eq(is, want))
		object_fault(c, key,
			     xasprintf("%s is %s%s%s, not \"%s\"", field, is ? "\"" : "",
				       is ? is : "missing", is ? "\"" : "", want));
}

static void note_owners(struct check *c, const char *key, const struct json *meta)
{
	json_each(it, json_get(meta, "ownerReferences")) {
		const char *uid = json_get_str(it.val, "uid");

		if (!uid) {
			object_fault(c, key, xstrdup("one of its ownerReferences has no uid"));
			continue;
		}
		c->owned = xrealloc(c->owned, (c->n_owned + 1) * sizeof(*c->owned));
		c->owned[c->n_owned++] = (struct owned){
			xstrdup(key),
			xstrdup(uid),
			xasprintf("%s %s", str_or(json_get_str(it.val, "kind"), "?"),
				  str_or(json_get_str(it.val, "name"), "?")),
		};
	}
}

static void check_identity(struct check *c, const struct kind *k, const char *key,
			   const struct json *meta)
{
	const char *uid = json_get_str(meta, "uid"), *ns = json_get_str(meta, "namespace");
	autofree char *made = key_of(k, ns, str_or(json_get_str(meta, "name"), ""));

	if (!str_eq(made, key))
		object_fault(c, key, xasprintf("by its name and namespace it belongs to %s", made));
	if (str_empty(uid))
		object_fault(c, key, xstrdup("it has no uid"));
	else if (map_has(c->uids, uid))
		object_fault(c, key,
			     xasprintf("it has the same uid as %s",
				       (const char *)map_get(c->uids, uid)));
	else
		map_put(c->uids, uid, xstrdup(key));
	if (str_eq(k->kind, "Namespace") && !*k->group)
		map_put(c->namespaces, str_or(json_get_str(meta, "name"), ""), xstrdup(key));
	if ((k->flags & KIND_NAMESPACED) && !str_empty(ns) && !map_has(c->spaces, ns))
		map_put(c->spaces, ns, xstrdup(key));
}

static void check_object(struct check *c, const struct kind *k, const char *key, uint64_t rev,
			 const struct bytes *value)
{
	const struct decode_input in = { DECODE_JSON, value->data, value->len, NULL };
	autofree char *at = xasprintf("%llu", (unsigned long long)rev);
	autoptr(json_doc) doc = NULL;
	const struct json *root, *meta;
	struct err *e = schema_decode(k->type, &in, NULL, &doc);

	if (e) {
		object_fault(c, key,
			     xasprintf("it does not decode as a %s: %s", k->kind, err_text(e)));
		err_free(e);
		return;
	}
	root = json_root(doc);
	meta = json_get(root, "metadata");
	compare(c, key, "apiVersion", json_get_str(root, "apiVersion"), kind_api_version(k));
	compare(c, key, "kind", json_get_str(root, "kind"), k->kind);
	compare(c, key, "metadata.resourceVersion", json_get_str(meta, "resourceVersion"), at);
	check_identity(c, k, key, meta);
	note_owners(c, key, meta);
}

static void on_row(void *arg, const char *key, uint64_t rev, struct bytes *value)
{
	struct check *c = arg;
	const struct kind *k = key_kind(c->kinds, key);
	autofree char *resource = NULL;

	if (k) {
		check_object(c, k, key, rev, value);
		return;
	}
	resource = xstrndup(key, strcspn(key, "/"));
	if (map_has(c->unknown, resource))
		return;
	map_put(c->unknown, resource, xstrdup(key));
	findings_add(&c->findings, FINDING_NOTE, resource,
		     "this version does not know the kind; its objects are kept and not served",
		     "use a version that knows it, or delete its rows");
}

/* Once all objects are known. */
static void check_relations(struct check *c)
{
	for (size_t i = 0; i < c->n_owned; i++) {
		const struct owned *o = &c->owned[i];
		autofree char *text = NULL;

		if (map_has(c->uids, o->owner_uid))
			continue;
		text = xasprintf("its owner %s (uid %s) does not exist", o->owner, o->owner_uid);
		findings_add(&c->findings, FINDING_NOTE, o->key, text,
			     "nothing: the garbage collector deletes it while a server runs");
	}
	map_each(it, c->spaces) {
		if (map_has(c->namespaces, it.key))
			continue;
		object_fault(c, it.value, xasprintf("its namespace %s does not exist", it.key));
	}
}

static void check_done(struct check *c)
{
	for (size_t i = 0; i < c->n_owned; i++) {
		free(c->owned[i].key);
		free(c->owned[i].owner_uid);
		free(c->owned[i].owner);
	}
	free(c->owned);
	map_free(c->uids);
	map_free(c->namespaces);
	map_free(c->spaces);
	map_free(c->unknown);
}

static void report(struct check *c, const char *data_dir, const struct data_holder *h,
		   const struct store_facts *facts)
{
	struct json_doc *d = c->findings.doc;
	struct json *root = json_obj(d);

	json_set_root(d, root);
	json_set_str(d, root, "dataDir", data_dir);
	json_set(d, root, "server", json_new_str(d, *h->text ? h->text : NULL));
	json_set_int(d, root, "revision", (int64_t)facts->rev);
	json_set_int(d, root, "schema", facts->schema);
	json_set_int(d, root, "objects", (int64_t)facts->objects);
	json_set_int(d, root, "faults", (int64_t)c->findings.faults);
	json_set(d, root, "findings", c->findings.list);
	if (c->findings.dropped)
		json_set_int(d, root, "notListed", (int64_t)c->findings.dropped);
}

/* A process that nobody can see has it as well as one that can be seen. */
static struct err *find_holder(const char *data_dir, struct data_holder *ret)
{
	struct err *e = data_holder_find(data_dir, ret);

	if (ret->pidfd >= 0)
		(void)close(take_fd(ret->pidfd));
	if (!err_is(e, ERR_NOT_FOUND) || !*ret->text)
		return e;
	err_free(e);
	return NULL;
}

struct err *data_check(const char *data_dir, struct kinds *kinds, struct json_doc **ret,
		       size_t *ret_faults)
{
	autoptr(json_doc) doc = json_doc_new();
	autofree char *path = xasprintf("%s/store.db", data_dir);
	struct check c = { .kinds = kinds,
			   .findings = { .doc = doc, .list = json_arr(doc) },
			   .uids = map_new(free),
			   .namespaces = map_new(free),
			   .spaces = map_new(free),
			   .unknown = map_new(free) };
	struct store_inspector with = { .fault = on_fault, .row = on_row, .arg = &c };
	struct store_facts facts = { 0 };
	struct data_holder holder;
	struct err *e = find_holder(data_dir, &holder);

	with.log = !*holder.text; /* a log that is being written looks damaged */
	if (!e && data_restore_pending(data_dir))
		e = err_new(ERR_CONFLICT,
			    "a restoration of %s was interrupted; start the server, "
			    "which completes it",
			    data_dir);
	if (!e)
		e = store_inspect(path, &with, &facts);
	if (!e) {
		check_relations(&c);
		check_keys(&c.findings, data_dir);
		report(&c, data_dir, &holder, &facts);
		*ret_faults = c.findings.faults;
		*ret = take(doc);
	}
	check_done(&c);
	return e;
}
