/* SPDX-License-Identifier: Apache-2.0 */
#include "claims.h"

#include "base/mem.h"
#include "kinds.h"

#define CONTAINERS "'containers':[{'name':'c','image':'pause'}]"

void make_template(struct world *w, const char *name, const char *more)
{
	autofree char *text = xasprintf(
		"{'metadata':{'name':'%s'},'spec':{'podTemplate':{'spec':{" CONTAINERS "}}%s}}",
		name, more);

	create(w, kind_named("SandboxTemplate"), text);
}

void make_pool(struct world *w, const char *name, const char *template, const char *more)
{
	autofree char *text = xasprintf(
		"{'metadata':{'name':'%s'},'spec':{'sandboxTemplateRef':{'name':'%s'}%s}}", name,
		template, more);

	create(w, kind_named("SandboxWarmPool"), text);
}

void make_claim(struct world *w, const char *name, const char *pool, const char *more)
{
	autofree char *text =
		xasprintf("{'metadata':{'name':'%s'},'spec':{'warmPoolRef':{'name':'%s'}%s}}", name,
			  pool, more);

	create(w, kind_named("SandboxClaim"), text);
}

char *bound_to(struct world *w, const char *claim)
{
	autoptr(object) c = get(w, kind_named("SandboxClaim"), claim);

	return xstrdup(json_get_str(json_get(object_status(c), "sandbox"), "name"));
}

const char *ready_of(struct world *w, const char *claim)
{
	return condition_of(w, kind_named("SandboxClaim"), claim, "Ready");
}

void open_with_pool(struct world *w, const char *replicas)
{
	autofree char *more = xasprintf(",'replicas':%s", replicas);

	world_open(w, NULL);
	make_template(w, "t", "");
	make_pool(w, "p", "t", more);
	turn(w);
	all_pods_run(w);
}
