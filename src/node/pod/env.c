/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "node/image/image.h"
#include "node/pod/pod_priv.h"

/*
 * The environment of a container: what the image sets, envFrom, env, in this order, the later
 * winning; values may use $(NAME) of earlier ones.
 */
struct env {
	struct arena *arena;
	struct map *values; /* name → value in the arena */
	const char **names; /* in order */
	size_t n, cap;
};

enum {
	ENV_MAX = 4096,
};

static void env_set(struct env *v, const char *name, const char *value)
{
	if (!map_has(v->values, name)) {
		if (v->n + 1 >= v->cap) {
			v->cap = v->cap ? v->cap * 2 : 32;
			v->names = xrealloc(v->names, v->cap * sizeof(*v->names));
		}
		v->names[v->n++] = arena_strdup(v->arena, name);
	}
	map_put(v->values, name, arena_strdup(v->arena, value));
}

char *env_expand(struct arena *a, const char *text, const struct map *values)
{
	autobuf out = { 0 };

	while (*text) {
		const char *end;

		if (text[0] == '$' && text[1] == '$') {
			buf_add_char(&out, '$');
			text += 2;
			continue;
		}
		end = text[0] == '$' && text[1] == '(' ? strchr(text, ')') : NULL;
		if (end) {
			autofree char *name = xstrndup(text + 2, (size_t)(end - text - 2));
			const char *value = map_get(values, name);

			if (value)
				buf_add_str(&out, value);
			else
				buf_add(&out, text,
					(size_t)(end - text + 1)); /* unknown: kept as it is */
			text = end + 1;
			continue;
		}
		buf_add_char(&out, *text++);
	}
	return arena_strdup(a, buf_str(&out));
}

/* *ret stays NULL if the key is optional and missing. */
static struct err *from_key(struct container *c, const struct pod_key_ref *ref, bool secret,
			    char **ret)
{
	autoptr(object) o =
		source_object(c->pod->pods->volumes, c->pod->obj->ns, ref->name, secret);
	size_t len;
	struct err *e = o ? source_value(o, secret, ref->key, ret, &len) : NULL;

	if (e || *ret || ref->optional)
		return e;
	return o ? err_new(ERR_UNAVAILABLE, "%s \"%s\" has no key \"%s\"", source_noun(secret),
			   ref->name, ref->key)
		 : err_new(ERR_UNAVAILABLE, "%s \"%s\" not found", source_noun(secret), ref->name);
}

static struct err *add_from(struct env *v, struct container *c,
			    const struct pod_env_from_view *from)
{
	autoptr(object) o =
		source_object(c->pod->pods->volumes, c->pod->obj->ns, from->name, from->secret);

	if (!o)
		return from->optional ? NULL
				      : err_new(ERR_UNAVAILABLE, "%s \"%s\" not found",
						source_noun(from->secret), from->name);
	json_each(d, json_get(o->root, "data")) {
		autofree char *name = xasprintf("%s%s", from->prefix, d.key), *value = NULL;
		size_t len;
		struct err *e = source_value(o, from->secret, d.key, &value, &len);

		if (e)
			return e;
		if (value && !strchr(name, '='))
			env_set(v, name, value);
	}
	return NULL;
}

static struct err *add_one(struct env *v, struct container *c, const struct pod_env_view *e)
{
	struct volume_pod pod = pod_volumes(c->pod);
	const struct pod_container_view *of = c->view;
	autofree char *value = NULL;
	struct err *err = NULL;

	if (str_empty(e->name) || strchr(e->name, '='))
		return NULL;
	switch (e->source) {
	case POD_ENV_VALUE:
		env_set(v, e->name, env_expand(v->arena, e->value, v->values));
		return NULL;
	case POD_ENV_CONFIG_MAP:
	case POD_ENV_SECRET:
		err = from_key(c, &e->ref, e->source == POD_ENV_SECRET, &value);
		break;
	case POD_ENV_FIELD:
		if (!str_empty(e->field.container))
			of = pod_view_container(c->pod->view, e->field.container);
		value = downward_value(&pod, of, &e->field);
		break;
	case POD_ENV_SOURCE_MAX_:
		break;
	}
	if (!err && value)
		env_set(v, e->name, value);
	return err;
}

static void add_image(struct env *v, const struct image *img)
{
	json_each(e, img && img->config ? json_get(json_root(img->config), "env") : NULL) {
		const char *text = str_or(json_str(e.val), ""), *eq = strchr(text, '=');
		autofree char *name = eq ? xstrndup(text, (size_t)(eq - text)) : NULL;

		if (name && *name)
			env_set(v, name, eq + 1);
	}
}

static const char **env_list(struct env *v)
{
	const char **list = arena_new_n(v->arena, const char *, v->n + 1);

	for (size_t i = 0; i < v->n; i++)
		list[i] = arena_printf(v->arena, "%s=%s", v->names[i],
				       (const char *)map_get(v->values, v->names[i]));
	return list;
}

static struct err *fill(struct env *v, struct container *c)
{
	struct err *e = NULL;

	env_set(v, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	env_set(v, "HOME",
		str_or(c->view->user < 0 ? image_text(c->image, "home") : NULL, "/root"));
	env_set(v, "HOSTNAME", c->pod->view->hostname);
	add_image(v, c->image);
	for (size_t i = 0; i < c->view->n_env_from && !e; i++)
		e = add_from(v, c, &c->view->env_from[i]);
	for (size_t i = 0; i < c->view->n_env && !e; i++)
		e = add_one(v, c, &c->view->env[i]);
	if (!e && v->n > ENV_MAX)
		e = err_new(ERR_TOO_LARGE, "%zu environment variables are more than %d", v->n,
			    ENV_MAX);
	return e;
}

struct err *env_build(struct container *c, struct arena *a, const char ***ret)
{
	autoptr(map) values = map_new(NULL);
	struct env v = { .arena = a, .values = values };
	struct err *e = fill(&v, c);

	if (!e)
		*ret = env_list(&v);
	free(v.names);
	return err_wrap(e, "build the environment");
}
