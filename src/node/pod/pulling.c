/* SPDX-License-Identifier: Apache-2.0 */
#include "api/object.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/image/image.h"
#include "node/pod/pod_priv.h"

/*
 * The image of a container: the local one, or one that is pulled first, by the pull policy.
 *
 *   ContainerCreating (pulling) → ErrImagePull → ImagePullBackOff → ContainerCreating …
 *
 * The error is shown for a moment by itself, then with the back-off, as the kubelet does. An image
 * that appears by another way ends the wait.
 */
enum {
	SHOW_ERROR_S = 1,
};

/* Keys are host names; what `docker login` writes for Docker Hub is a URL. */
static char *registry_of(const char *key)
{
	const char *p = strstr(key, "://");
	char *name = xstrdup(p ? p + strlen("://") : key);

	if (p)
		name[strcspn(name, "/")] = '\0';
	return name;
}

/* {"auth": base64 of "user:password"}, from that or from both in clear. */
static struct json *entry_of(struct json_doc *d, const struct json *v)
{
	const char *auth = json_get_str(v, "auth"), *user = json_get_str(v, "username");
	autofree char *both =
		xasprintf("%s:%s", str_or(user, ""), str_or(json_get_str(v, "password"), ""));
	autofree char *made = str_empty(auth) ? base64_encode(both, strlen(both), false) : NULL;
	struct json *o = json_obj(d);

	json_set_str(d, o, "auth", made ? made : auth);
	return o;
}

static void add_secret(const struct pod *p, const char *name, struct json_doc *d)
{
	autoptr(object) o = source_object(p->pods->volumes, p->obj->ns, name, true);
	autoptr(json_doc) config = NULL;
	autofree char *text = NULL;
	size_t len = 0;

	if (!o)
		return; /* as the kubelet: the registry may be content without */
	err_free(source_value(o, true, ".dockerconfigjson", &text, &len));
	if (text)
		err_free(json_parse(text, len, NULL, &config));
	json_each(a, config ? json_get(json_root(config), "auths") : NULL) {
		autofree char *registry = registry_of(a.key);

		json_set(d, json_need_obj(d, json_root(d), "auths"), registry, entry_of(d, a.val));
	}
}

/* The credentials of the Pod's imagePullSecrets as an auth file has them; NULL: it has none. */
static char *credentials(const struct pod *p)
{
	const struct json *secrets = json_at_path(p->obj->root, "spec.imagePullSecrets");
	autoptr(json_doc) d = json_doc_new();

	json_set_root(d, json_obj(d));
	json_each(s, secrets)
		add_secret(p, str_or(json_get_str(s.val, "name"), ""), d);
	return json_len(json_root(d)) ? json_to_text(json_root(d)) : NULL;
}

static void on_pulled(struct image_pull_wait *w, const struct err *e)
{
	struct container *c = container_of(w, struct container, pull);

	if (!e) {
		c->pulled = true;
		c->pull_backoff_s = 0;
		pod_event(c->pod, false, "Pulled", "Successfully pulled image \"%s\"",
			  c->view->image);
	} else {
		pod_event(c->pod, true, "Failed", "Failed to pull image \"%s\": %s", c->view->image,
			  err_text(e));
		container_wait(c, WAIT_IMAGE, err_text(e));
		c->pull_failed = true;
		c->pull_backoff_s = pull_backoff_s(c->pull_backoff_s);
		container_hold_back(c, SHOW_ERROR_S);
	}
	pod_wake(c->pod);
}

void container_pull_init(struct container *c)
{
	list_init(&c->pull.on);
	c->pull.done = on_pulled;
}

static void back_off(struct container *c)
{
	autofree char *why = xstrdup(str_or(c->message, ""));
	autofree char *text = xasprintf("Back-off pulling image \"%s\": %s", c->view->image, why);

	c->pull_failed = false;
	container_wait(c, WAIT_IMAGE_BACKOFF, text);
	container_hold_back(c, c->pull_backoff_s);
	pod_event(c->pod, false, "BackOff", "Back-off pulling image \"%s\"", c->view->image);
	pod_wake(c->pod); /* the status has changed */
}

static void pull(struct container *c)
{
	struct pods *ps = c->pod->pods;
	autofree char *auth = NULL;

	if (!list_empty(&c->pull.on))
		return; /* under way */
	if (c->pull_failed) {
		back_off(c);
		return;
	}
	auth = credentials(c->pod);
	container_wait(c, WAIT_CREATING, "");
	pod_event(c->pod, false, "Pulling", "Pulling image \"%s\"", c->view->image);
	ps->pull_image(ps->pulls, c->view->image, auth, &c->pull);
}

/* Takes e over. */
static void no_image(struct container *c, struct err *e)
{
	if (!str_eq(c->message, err_text(e)))
		pod_event(c->pod, true, "Failed", "Failed to pull image \"%s\": %s", c->view->image,
			  err_text(e));
	container_wait(c,
		       err_is(e, ERR_INVALID) ? WAIT_IMAGE_NAME
		       : c->view->never_pull  ? WAIT_IMAGE_NEVER
					      : WAIT_IMAGE,
		       err_text(e));
	err_free(e);
}

/* An image that was made here, or only given this name here, is in no registry. */
static bool must_pull(const struct container *c, const struct image *img)
{
	return c->pod->pods->pull_image && c->view->always_pull && !c->pulled && img->pulled;
}

bool container_find_image(struct container *c)
{
	struct image *img = NULL;
	struct pods *ps = c->pod->pods;
	struct err *e = ps->find_image(ps->images, c->view->image, &img);

	if (err_is(e, ERR_UNAVAILABLE)) {
		container_wait(c, WAIT_IMAGE_MADE, err_text(e));
		err_free(e);
		return false;
	}
	if (e && (!err_is(e, ERR_NOT_FOUND) || c->view->never_pull || !ps->pull_image)) {
		no_image(c, e);
		return false;
	}
	if (!e && !must_pull(c, img)) {
		image_free(c->image);
		c->image = img;
		return true;
	}
	err_free(e);
	image_free(img);
	pull(c);
	return false;
}
