/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router of `cay serve`, and the policy that it asks: who may enter which sandbox, and by which
 * names the router may be called.
 */
#include <grp.h>
#include <limits.h>
#include <unistd.h>

#include "api/agents.h"
#include "api/object.h"
#include "api/registry.h"
#include "api/view_sandbox.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/wall.h"
#include "cli/cli.h"
#include "client/access.h"
#include "client/client.h"
#include "net/http_server.h"
#include "node/node.h"
#include "role/serve_priv.h"
#include "router/router.h"
#include "server/server.h"

/* The same in words that say what to do. */
static struct err *explain_refusal(struct err *e, const char *ns)
{
	bool known = err_is(e, ERR_FORBIDDEN);

	if (!known && !err_is(e, ERR_UNAUTHENTICATED))
		return e;
	err_free(e);
	if (known)
		return err_new(ERR_FORBIDDEN,
			       "forbidden: the token may not create pods/exec for this sandbox in "
			       "namespace %s",
			       ns);
	return err_new(
		ERR_UNAUTHENTICATED,
		"unauthenticated: ask as root or as a member of the group that "
		"--router-group names, or send Authorization: Bearer TOKEN with a token that "
		"may create pods/exec in namespace %s",
		ns);
}

/* A request through a tunnel: what its user may do. */
static struct err *tunnel_may_enter(struct serve *s, const struct router_ask *ask, const char *pod)
{
	struct access_target who;

	if (!serve_find_ticket(s, ask->caller.ticket, &who))
		return err_new(ERR_UNAUTHENTICATED, "the tunnel has ended");
	return server_user_may_exec(s->server, &who, ask->ns, pod);
}

/* Who may use the router: whoever could read our keys anyway, and whoever may exec. */
static struct err *may_enter(void *arg, const struct router_ask *ask)
{
	struct serve *s = arg;
	autoptr(object) sandbox = NULL;
	const char *pod;
	struct err *e;

	if (ask->caller.trusted || !wall_stands("router-uid"))
		return NULL;
	if (ask->caller.local && settings_bool(s->settings, "open-to-local-users"))
		return NULL;
	sandbox = client_get(s->router_client, s->sandboxes, ask->ns, ask->sandbox);
	pod = sandbox ? sandbox_view(sandbox)->pod_name : ask->sandbox;
	if (ask->caller.ticket)
		return tunnel_may_enter(s, ask, pod);
	e = server_may_exec(s->server, http_request_header(ask->request, "Authorization"), ask->ns,
			    pod);
	return explain_refusal(e, ask->ns);
}

/* Who may use node ports, where nobody can show a token: the same callers as above without one. */
static bool may_connect(void *arg, const struct router_caller *caller)
{
	const struct serve *s = arg;

	return caller->trusted || !wall_stands("node-port-uid") ||
	       (caller->local && settings_bool(s->settings, "open-to-local-users"));
}

static struct err *find_group(const char *text, gid_t *ret)
{
	const struct group *g = getgrnam(text);
	autoptr(err) bad = NULL;
	int64_t id = 0;

	if (!g)
		bad = parse_int(text, 0, UINT32_MAX - 1, &id);
	if (bad)
		return err_new(ERR_INVALID, "--router-group: there is no group named %s", text);
	*ret = g ? g->gr_gid : (gid_t)id;
	return NULL;
}

/* Names of this machine, and those that were given. NULL: any will do. */
static char **router_hosts(const struct serve *s)
{
	const char *given = settings_text(s->settings, "router-host");
	const char *san = settings_text(s->settings, "tls-san");
	char own[HOST_NAME_MAX + 1] = "localhost";
	struct span rest = SPAN(given ? given : ""), name;
	char **list = xnew_n(char *, 4 + rest.len);
	size_t n = 0;

	(void)gethostname(own, sizeof(own) - 1);
	list[n++] = xstrdup("localhost");
	list[n++] = xstrdup(own);
	if (san)
		list[n++] = xstrdup(san);
	while (rest.len) {
		name = span_trim(span_cut(rest, ',', &rest));
		if (name.len)
			list[n++] = xstrndup(name.p, name.len);
	}
	return list;
}

static struct err *start_node_ports(struct serve *s, const struct router_spec *router)
{
	const struct node_ports_spec spec = {
		.node_name = s->node_name,
		.mark = router->mark,
		.max_conns = router->max_conns / 4,
		.has_group = router->has_group,
		.group = router->group,
		.enter = may_connect,
		.arg = s,
	};

	if (str_eq(settings_text(s->settings, "node-ports"), "none"))
		return NULL;
	return node_ports_start(s->loop, s->router_client, &spec, &s->node_ports);
}

static void start_front(struct serve *s)
{
	char address[16];

	node_gateway(s->node, address);
	s->pods = kinds_need(s->kinds, "v1", "Pod");
	s->front = front_new(s->loop, s->router_client,
			     &(struct front_spec){ .node_name = s->node_name, .address = address });
	serve_open_door(s, node_access(s->node));
}

struct err *serve_start_router(struct serve *s)
{
	const char *group = settings_text(s->settings, "router-group");
	struct router_spec spec = {
		.listen = settings_text(s->settings, "router-listen"),
		.max_conns = s->budget.router,
		.no_access_log = !settings_bool(s->settings, "router-access-log"),
		.mark = node_mark(s->node),
		.tell_callers = true,
		.has_group = group,
	};
	char **hosts = router_hosts(s);
	struct err *e = group ? find_group(group, &spec.group) : NULL;

	spec.hosts = str_in("*", (const char *const *)hosts) ? NULL : (const char *const *)hosts;
	s->sandboxes = kinds_need(s->kinds, API_SANDBOX, "Sandbox");
	if (!e)
		e = router_start(s->loop, s->router_client, &spec, &s->router);
	if (!e)
		router_set_policy(s->router, may_enter, s);
	if (!e)
		e = start_node_ports(s, &spec);
	if (!e)
		start_front(s);
	for (size_t i = 0; hosts[i]; i++)
		free(hosts[i]);
	free(hosts);
	return e;
}
