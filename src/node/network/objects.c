/* SPDX-License-Identifier: Apache-2.0 */
#include "node/network/objects.h"

#include "base/mem.h"

bool objects_add(void *arg, struct object *o)
{
	struct objects *l = arg;

	if (l->n == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 64;
		l->list = xrealloc(l->list, l->cap * sizeof(struct object *));
	}
	l->list[l->n++] = o;
	return true;
}
