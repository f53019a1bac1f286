/* SPDX-License-Identifier: Apache-2.0 */
#include "nowhere.h"

#include "base/mem.h"
#include "client/client.h"

static struct object *get(void *ctx unused, const struct kind *k unused, const char *ns unused,
			  const char *name unused)
{
	return NULL;
}

static void each(void *ctx unused, const struct kind *k unused, const char *ns unused,
		 bool (*fn)(void *arg, struct object *o) unused, void *arg unused)
{
}

static void *watch(void *ctx unused, const struct client_watch_spec *spec unused,
		   const struct client_watch_events *ev unused, void *arg unused)
{
	return xnew(char);
}

static void watch_free(void *ctx unused, void *w)
{
	free(w);
}

static void create(void *ctx unused, const struct client_ref *to unused, struct json_doc *obj,
		   struct client_write *w)
{
	struct client_waiter waiter;

	json_doc_free(obj);
	client_waiter_init(&waiter, w);
	client_waiter_end(&waiter, err_new(ERR_UNAVAILABLE, "nothing can be created"), NULL);
}

static void ctx_free(void *ctx unused)
{
}

struct client *nowhere_client(struct kinds *kinds)
{
	static const struct client_ops ops = { .get = get,
					       .each = each,
					       .watch = watch,
					       .watch_free = watch_free,
					       .create = create,
					       .free = ctx_free };

	return client_new(&ops, NULL, kinds);
}
