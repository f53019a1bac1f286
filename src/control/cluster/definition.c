/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/crd/crd.h"
#include "api/kind.h"
#include "api/meta.h"
#include "api/object.h"
#include "api/registry.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "client/client.h"
#include "control/cluster/cluster_priv.h"
#include "control/pass/context.h"
#include "control/pass/draft.h"

/*
 * The end of a CustomResourceDefinition. While its finalizer is on it, the objects of its kind are
 * deleted, some with each pass; once none is left, the finalizer is taken away, and with that the
 * server ends the definition and its kind. A key is a definition's name, PLURAL.GROUP.
 */
enum {
	BUDGET = 256,    /* objects that one pass deletes */
	AGAIN_MS = 1000, /* objects that something holds up are looked at again this often */
};

enum definition_write {
	DEFINITION_WRITE_EMPTY, /* the deletion of an object */
	DEFINITION_WRITE_STATUS,
	DEFINITION_WRITE_RELEASE, /* the finalizer */
	DEFINITION_WRITE_MAX_,
};
_Static_assert(DEFINITION_WRITE_MAX_ <= WRITES_MAX, "items keep the outcome of every write");

/* Its own changes matter, and the end of an object: it may have been the last. */
void definitions_changed(struct cluster *cl, const struct object *was, const struct object *now)
{
	const struct object *o = now ? now : was;
	char name[512];

	if (o->kind == cl->definition && now && object_deleting(now)) {
		item_wake(cl->c->chores, CONTROL_DEFINITION, "", o->name);
	} else if (!now && (o->kind->flags & KIND_CRD) && !(o->kind->flags & KIND_PROTECTED)) {
		(void)snprintf(name, sizeof(name), "%s.%s", o->kind->plural, o->kind->group);
		item_wake(cl->c->chores, CONTROL_DEFINITION, "", name);
	}
}

struct instances {
	struct object *list[BUDGET]; /* references to those that are not being deleted yet */
	size_t n, all;
};

static bool add_object(void *arg, struct object *o)
{
	struct instances *in = arg;

	in->all++;
	if (!object_deleting(o))
		in->list[in->n++] = object_ref(o);
	return in->n < BUDGET;
}

static void instances_free(struct instances *in)
{
	for (size_t i = 0; in && i < in->n; i++)
		object_unref(in->list[i]);
	free(in);
}
AUTOPTR(instances)

static void empty(struct pass *p, const struct instances *in)
{
	for (size_t i = 0; i < in->n; i++) {
		const struct object *o = in->list[i];
		const struct client_delete_spec spec = { .uid = o->uid,
							 .propagation = "Background",
							 .grace_s = -1 };
		const struct write w = { .name = DEFINITION_WRITE_EMPTY,
					 .to = ref_of(o),
					 .what = "delete the objects of a definition",
					 .flags = WRITE_GONE_OK };

		pass_delete(p, &w, &spec);
	}
}

/* In the words of Kubernetes. */
static void report(struct pass *p, const struct object *crd)
{
	autoptr(json_doc) d = draft_status(crd);
	struct json *list = json_get(json_root(d), "conditions");
	struct write w = { .name = DEFINITION_WRITE_STATUS,
			   .to = ref_of(crd),
			   .what = "report the end of a definition",
			   .flags = WRITE_QUIET | WRITE_GONE_OK | WRITE_CONFLICT_OK };
	struct json_doc *patch;

	conditions_upsert(
		d, list,
		&(struct condition){ .type = "Terminating",
				     .status = "True",
				     .reason = "InstanceDeletionInProgress",
				     .message = "CustomResource deletion is in progress" },
		p->now);
	patch = draft_status_patch(crd, json_root(d));
	w.to.sub = "status";
	if (patch)
		pass_patch(p, &w, patch);
}

static void release(struct pass *p, const struct object *crd)
{
	const struct write w = { .name = DEFINITION_WRITE_RELEASE,
				 .to = ref_of(crd),
				 .what = "finish the deletion of a definition",
				 .flags = WRITE_QUIET | WRITE_GONE_OK | WRITE_CONFLICT_OK };

	log_info("no objects of the kind are left, finishing the deletion of its definition",
		 KV("definition", crd->name));
	pass_patch(p, &w, finalizer_patch(crd, CRD_FINALIZER));
}

struct again definition_reconcile(struct pass *p)
{
	const struct cluster *cl = p->own;
	autoptr(object) crd = client_get(p->c->client, cl->definition, NULL, p->key->name);
	autoptr(instances) in = xnew(struct instances);
	struct err *e = pass_take_error(p);
	const struct kind *k;

	if (e)
		return again_retry(e);
	if (!crd || !object_deleting(crd) || !object_has_finalizer(crd, CRD_FINALIZER))
		return again_never();
	k = kinds_stored(client_kinds(p->c->client), crd->name);
	if (k) /* otherwise it was never established */
		client_each(p->c->client, k, NULL, add_object, in);
	empty(p, in);
	if (in->n)
		return again_wait(); /* for these; then we look again */
	if (in->all) {
		report(p, crd);
		return again_after(AGAIN_MS);
	}
	release(p, crd);
	return again_never(); /* its next change brings us back */
}
