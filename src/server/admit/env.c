/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"
#include "api/object.h"
#include "api/storage.h"
#include "base/buf.h"
#include "server/admit/admit_priv.h"
#include "server/objects/objects.h"
#include "store/store.h"

/* What the hooks of a kind may know: this server's node, and its StorageClasses. */

/* There are a few of them. Objects stay where they are until the next write. */
static const struct json *default_class(const struct objects *os)
{
	const struct json *best = NULL;
	struct store_entry *en = NULL;
	autobuf prefix = { 0 };

	key_prefix(&prefix, os->storage_class, NULL);
	while ((en = store_next(os->store, buf_str(&prefix), en ? en->key : NULL))) {
		autoptr(object) o = objects_of_entry(os, en);
		const struct json *root =
			o ? objects_find(os, os->storage_class, "", o->name)->root : NULL;

		if (root && storage_class_leads(root, best))
			best = root;
	}
	return best;
}

static const struct json *storage_class(const struct kind_env *env, const char *name)
{
	const struct objects *os = env->arg;
	const struct object *o;

	if (!name)
		return default_class(os);
	o = objects_find(os, os->storage_class, "", name);
	return o ? o->root : NULL;
}

struct kind_env admit_env(const struct admit *a)
{
	return (struct kind_env){ .node_name = a->node_name,
				  .storage_class = storage_class,
				  .arg = a->objects };
}
