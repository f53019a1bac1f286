/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/kind.h"
#include "api/openapi.h"
#include "api/registry.h"
#include "base/arena.h"
#include "base/bytes.h"
#include "base/map.h"
#include "base/str.h"
#include "json/json.h"
#include "server/call/call.h"
#include "server/call/status.h"
#include "server/pages/pages_priv.h"

/*
 * /openapi/v3: an index, and a document for each group and version, which is costly to build
 * and therefore kept until the kinds change.
 */
static void bytes_drop(void *value)
{
	bytes_unref(value);
}

/* Kept until the kinds change. NULL: there is no such document. */
static struct bytes *document(struct pages *ps, const char *path,
			      struct json_doc *(*make)(const struct kinds *ks,
						       const char *const *gv),
			      const char *const *gv)
{
	struct bytes *b;
	autoptr(json_doc) d = NULL;

	if (!ps->documents || ps->documents_of != kinds_version(ps->kinds)) {
		map_free(ps->documents);
		ps->documents = map_new(bytes_drop);
		ps->documents_of = kinds_version(ps->kinds);
	}
	b = map_get(ps->documents, path);
	if (b)
		return bytes_ref(b);
	d = make(ps->kinds, gv);
	if (!d)
		return NULL;
	b = json_to_bytes(json_root(d));
	map_put(ps->documents, path, bytes_ref(b));
	return b;
}

static struct json_doc *make_index(const struct kinds *ks, const char *const *gv unused)
{
	return openapi_v3_index(ks);
}

static struct json_doc *make_group(const struct kinds *ks, const char *const *gv)
{
	const struct kind *const *all;
	size_t n;

	all = kinds_served(ks, &n);
	for (size_t i = 0; i < n; i++)
		if (str_eq(all[i]->group, gv[0]) && str_eq(all[i]->version, gv[1]))
			return openapi_v3(ks, gv[0], gv[1]);
	return NULL;
}

void openapi_v3_show(struct pages *ps, struct call *c)
{
	const char *path = c->route.path + strlen("/openapi/v3"), *slash;
	const char *gv[2] = { "", "" };
	struct bytes *b = NULL;

	if (!*path) {
		b = document(ps, c->route.path, make_index, NULL);
	} else if (str_starts(path, "/api/")) {
		gv[1] = path + strlen("/api/");
		b = document(ps, c->route.path, make_group, gv);
	} else if (str_starts(path, "/apis/") && (slash = strchr(path + 6, '/'))) {
		gv[0] = arena_strndup(c->arena, path + 6, (size_t)(slash - path - 6));
		gv[1] = slash + 1;
		b = document(ps, c->route.path, make_group, gv);
	}
	if (b)
		call_reply_document(c, "application/json", b->data);
	else
		call_fail(c, err_no_resource());
	bytes_unref(b);
}
