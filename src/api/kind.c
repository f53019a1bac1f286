/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kind.h"

#include <assert.h>

#include "base/macros.h"
#include "base/mem.h"
#include "base/str.h"

/* A kind counts its references; everything else about it is constant. */

struct kind *kind_new(const struct kind *like)
{
	struct kind *k = xnew(struct kind);

	*k = *like;
	k->refs = 1;
	(void)kind_ref(k->storage);
	return k;
}

const struct kind *kind_ref(const struct kind *k)
{
	if (k) {
		assert(k->refs); /* a description was never counted */
		((struct kind *)k)->refs++;
	}
	return k;
}

void kind_unref(const struct kind *k)
{
	struct kind *own = (struct kind *)k;

	if (!own || --own->refs)
		return;
	kind_unref(own->storage);
	if (own->release)
		own->release(own->arg);
	free(own);
}

const struct kind *kind_storage(const struct kind *k)
{
	return k->storage ? k->storage : k;
}

const char *kind_api_version(const struct kind *k)
{
	return k->api_version;
}

bool kind_has_subresource(const struct kind *k, const char *name)
{
	if (str_eq(name, "status"))
		return k->flags & KIND_STATUS;
	if (str_eq(name, "scale"))
		return k->flags & KIND_SCALE;
	return k->subresources && str_in(name, k->subresources);
}

const char *kind_selectable(const struct kind *k, const char *label)
{
	static const char *const always[] = { "metadata.name", "metadata.namespace", NULL };

	/* Of kinds with fields of their own, only those in namespaces can be asked for one. */
	if (str_in(label, always) &&
	    (str_eq(label, always[0]) || !k->selectable || k->flags & (KIND_NAMESPACED | KIND_CRD)))
		return label;
	for (const struct selectable *s = k->selectable; s && s->label; s++)
		if (str_eq(s->label, label))
			return s->path;
	return NULL;
}
