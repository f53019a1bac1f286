/* SPDX-License-Identifier: Apache-2.0 */
#include "api/crd/crd_priv.h"
#include "api/crd/custom_priv.h"
#include "base/buf.h"
#include "base/str.h"

/*
 * What a definition says and nobody here acts upon: rules in CEL and formats that are not known.
 * Whoever writes it is told, with each write.
 */
enum {
	WARNINGS_MAX = 8, /* and a line that says how many more there are */
};

struct warner {
	void (*warn)(void *arg, const char *text);
	void *arg;
	size_t n;
};

static void say(struct warner *w, const char *text)
{
	if (w->n++ < WARNINGS_MAX)
		w->warn(w->arg, text);
}

static void look(struct warner *w, const struct json *s, const struct path *at);

static void look_each(struct warner *w, const struct json *s, const char *name,
		      const struct path *up)
{
	const struct json *inner = json_get(s, name);
	struct path at = { .up = up, .name = name };
	size_t i = 0;

	if (json_is(inner, JSON_ARR) || str_eq(name, "properties")) {
		json_each(it, inner) {
			struct path in = { .up = &at, .name = it.key, .index = i++, .key = true };

			look(w, it.val, &in);
		}
	} else if (json_is(inner, JSON_OBJ)) {
		look(w, inner, &at);
	}
}

static void look(struct warner *w, const struct json *s, const struct path *at)
{
	static const char *const inner[] = {
		"properties", "additionalProperties", "items", "allOf", "anyOf", "oneOf", "not"
	};
	const char *format = json_get_str(s, "format");
	autofree char *path = NULL, *text = NULL;

	if (json_len(json_get(s, "x-kubernetes-validations"))) {
		path = path_text(at);
		text = xasprintf("%s.x-kubernetes-validations: rules in CEL are kept, but not "
				 "enforced by this server",
				 path);
		say(w, text);
	}
	if (!str_empty(format) && !format_known(json_get_str(s, "type"), format)) {
		autofree char *unknown = xasprintf("unrecognized format \"%.64s\"", format);

		say(w, unknown);
	}
	for (size_t i = 0; i < ARRAY_LEN(inner); i++)
		look_each(w, s, inner[i], at);
}

void crd_warn(const struct json *crd, void (*warn)(void *arg, const char *text), void *arg)
{
	struct path root = { .name = "spec.versions" };
	struct warner w = { .warn = warn, .arg = arg };
	size_t i = 0;

	json_each(it, json_get(json_get(crd, "spec"), "versions")) {
		struct path version = { .up = &root, .index = i++ };
		struct path schema = { .up = &version, .name = "schema" };
		struct path at = { .up = &schema, .name = "openAPIV3Schema" };

		look(&w, json_get(json_get(it.val, "schema"), "openAPIV3Schema"), &at);
	}
	if (w.n > WARNINGS_MAX) {
		autofree char *text = xasprintf("%zu more warnings about this definition are left "
						"out",
						w.n - WARNINGS_MAX);

		warn(arg, text);
	}
}
