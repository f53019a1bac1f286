/* SPDX-License-Identifier: Apache-2.0 */
#include "api/meta.h"
#include "api/object.h"
#include "base/str.h"
#include "node/volume/volume_priv.h"

/*
 * The claim of a Pod's volume: one that it names, or, for an ephemeral volume, one that is made for
 * the Pod and goes with it, because the Pod owns it. Its name is the Pod's and the volume's, and
 * somebody else may have a claim of that name: that is never taken for the Pod's.
 */
struct making {
	struct client_write write;
	struct err *err;
};

static void on_made(struct client_write *w, struct err *e, unused struct object *obj)
{
	container_of(w, struct making, write)->err = e;
}

static struct json_doc *claim_doc(const struct object *pod, const struct pod_volume_view *volume)
{
	static const char *const kept[] = { "labels", "annotations" };
	const struct json *from = json_get(volume->claim, "metadata");
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *meta;

	json_set_root(d, root);
	meta = json_need_obj(d, root, "metadata");
	json_set_str(d, meta, "name", volume->pvc);
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (json_get(from, kept[i]))
			json_set(d, meta, kept[i], json_copy(d, json_get(from, kept[i])));
	json_push(d, json_need_arr(d, meta, "ownerReferences"), meta_controller_ref(d, pod));
	json_set(d, root, "spec", json_copy(d, json_get(volume->claim, "spec")));
	return d;
}

/* In this process a write has ended when the call returns. */
static struct err *make_claim(struct volumes *v, const struct volume_pod *p,
			      const struct pod_volume_view *volume)
{
	const struct client_ref ref = { .kind = v->pvc, .ns = p->view->ns };
	struct making m = { .write.done = on_made };

	client_create(v->spec.client, &ref, claim_doc(p->obj, volume), &m.write);
	client_cancel(&m.write);
	if (err_is(m.err, ERR_EXISTS)) {
		err_free(m.err);
		return NULL;
	}
	return m.err ? err_wrap(err_recode(m.err, ERR_UNAVAILABLE),
				"create persistentvolumeclaim \"%s\"", volume->pvc)
		     : NULL;
}

static bool is_owned_by(const struct object *pvc, const char *uid)
{
	json_each(it, json_at_path(pvc->root, "metadata.ownerReferences"))
		if (json_get_bool(it.val, "controller", false) &&
		    str_eq(json_get_str(it.val, "uid"), uid))
			return true;
	return false;
}

struct err *claim_of(struct volumes *v, const struct volume_pod *p,
		     const struct pod_volume_view *volume, struct object **ret)
{
	autoptr(object) pvc = pvc_of(v, p->view->ns, volume);

	if (!pvc)
		return err_new(ERR_UNAVAILABLE, "persistentvolumeclaim \"%s\" not found",
			       volume->pvc);
	if (volume->claim && !is_owned_by(pvc, p->view->uid))
		return err_new(ERR_UNAVAILABLE,
			       "persistentvolumeclaim \"%s\" was not created for this Pod, which "
			       "is not its owner",
			       volume->pvc);
	*ret = take(pvc);
	return NULL;
}

struct err *claim_need(struct volumes *v, const struct volume_pod *p,
		       const struct pod_volume_view *volume, struct object **ret)
{
	autoptr(object) pvc = pvc_of(v, p->view->ns, volume);
	struct err *e = NULL;

	if (!pvc && volume->claim && p->obj)
		e = make_claim(v, p, volume);
	return e ? e : claim_of(v, p, volume, ret);
}
