/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "base/arena.h"
#include "base/parse.h"
#include "base/str.h"
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
					(size_t)(end - text + 1)); /* unknown: as it is */
			text = end + 1;
			continue;
		}
		buf_add_char(&out, *text++);
	}
	return arena_strdup(a, buf_str(&out));
}

/* The data of a Secret is base64, that of a ConfigMap is text. malloc'd, NULL: no such key. */
static char *data_value(const struct object *o, bool secret, const char *key)
{
	const char *text = json_str(json_get(json_get(o->root, "data"), key));
	void *bytes = NULL;
	size_t len;

	if (!text || !secret)
		return xstrdup(text);
	err_free(base64_decode(text, false, &bytes, &len));
	return bytes;
}

static struct object *source_object(struct container *c, const struct json *ref, bool secret)
{
	const struct kind *k = secret ? c->pod->node->kinds.secret : c->pod->node->kinds.config_map;
	const char *name = json_get_str(ref, "name");

	return name ? client_get(c->pod->node->client, k, c->pod->obj->ns, name) : NULL;
}

static struct err *from_key(struct container *c, const struct json *ref, bool secret, char **ret)
{
	autoptr(object) o = source_object(c, ref, secret);
	const char *key = json_get_str(ref, "key");

	*ret = o && key ? data_value(o, secret, key) : NULL;
	if (!*ret && !json_get_bool(ref, "optional", false))
		return err_new(ERR_UNAVAILABLE, "%s \"%s\" not found or without key \"%s\"",
			       secret ? "secret" : "configmap",
			       str_or(json_get_str(ref, "name"), ""), str_or(key, ""));
	return NULL;
}

static struct err *value_from(struct container *c, const struct json *from, char **ret)
{
	const struct json *ref;

	*ret = NULL;
	if ((ref = json_get(from, "configMapKeyRef")))
		return from_key(c, ref, false, ret);
	if ((ref = json_get(from, "secretKeyRef")))
		return from_key(c, ref, true, ret);
	*ret = field_value(c->pod, c, from);
	return NULL;
}

static struct err *add_from(struct env *v, struct container *c, const struct json *from)
{
	bool secret = json_get(from, "secretRef") != NULL;
	const struct json *ref = json_get(from, secret ? "secretRef" : "configMapRef");
	const char *prefix = str_or(json_get_str(from, "prefix"), "");
	autoptr(object) o = source_object(c, ref, secret);

	if (!o && json_get_bool(ref, "optional", false))
		return NULL;
	if (!o)
		return err_new(ERR_UNAVAILABLE, "%s \"%s\" not found",
			       secret ? "secret" : "configmap",
			       str_or(json_get_str(ref, "name"), ""));
	json_each(d, json_get(o->root, "data")) {
		autofree char *name = xasprintf("%s%s", prefix, d.key);
		autofree char *value = data_value(o, secret, d.key);

		if (value && !strchr(name, '='))
			env_set(v, name, value);
	}
	return NULL;
}

static struct err *add_one(struct env *v, struct container *c, const struct json *e)
{
	const char *name = json_get_str(e, "name");
	const struct json *from = json_get(e, "valueFrom");
	autofree char *value = NULL;
	struct err *err;

	if (str_empty(name) || strchr(name, '='))
		return NULL;
	if (!from) {
		const char *text = str_or(json_get_str(e, "value"), "");

		env_set(v, name, env_expand(v->arena, text, v->values));
		return NULL;
	}
	err = value_from(c, from, &value);
	if (!err && value)
		env_set(v, name, value);
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
	env_set(v, "HOME", "/root");
	env_set(v, "HOSTNAME",
		str_or(json_get_str(pod_spec(c->pod), "hostname"), c->pod->obj->name));
	add_image(v, c->image);
	json_each(f, json_get(c->spec, "envFrom"))
		if (!e)
			e = add_from(v, c, f.val);
	json_each(o, json_get(c->spec, "env"))
		if (!e)
			e = add_one(v, c, o.val);
	if (!e && v->n > ENV_MAX)
		e = err_new(ERR_TOO_LARGE, "set %zu environment variables", v->n);
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
