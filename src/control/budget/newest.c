/* SPDX-License-Identifier: Apache-2.0 */
#include "control/budget/newest.h"

#include <string.h>

#include "api/object.h"
#include "client/client.h"
#include "control/pass/context.h"

/* Names are dates, so their order is that of the days. */
static bool is_newer(void *arg, struct object *o)
{
	struct object **newest = arg;

	if (*newest && strcmp(o->name, (*newest)->name) <= 0)
		return true;
	object_unref(*newest);
	*newest = object_ref(o);
	return true;
}

struct object *ledger_newest(struct context *c, const char *ns)
{
	struct object *newest = NULL;

	if (!c->opt.access)
		return NULL; /* nothing is measured, and nobody watches them */
	client_each(c->client, c->kinds.ledger, ns, is_newer, &newest);
	return newest;
}
