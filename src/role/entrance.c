/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router of `cay serve`, and the policy that it asks: who may enter which sandbox.
 */
#include <arpa/inet.h>
#include <grp.h>

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
#include "control/control.h"
#include "gate/gate.h"
#include "net/http_server.h"
#include "node/node.h"
#include "role/serve_priv.h"
#include "router/node_ports/node_ports.h"
#include "router/router.h"
#include "server/server.h"

static const char ambient_help[] =
	"unauthenticated: ask as root or as a member of the group that --router-group names, or "
	"send Authorization: Bearer TOKEN with a token that may create pods/exec in namespace %s";
static const char shown_help[] =
	"unauthenticated: open a signed URL, which `cay url` makes, or send Authorization: Bearer "
	"TOKEN with a token that may create pods/exec in namespace %s";

/* The same in words that say what to do. */
static struct err *explain_refusal(struct err *e, const struct router_ask *ask)
{
	bool known = err_is(e, ERR_FORBIDDEN);

	if (!known && !err_is(e, ERR_UNAUTHENTICATED))
		return e;
	err_free(e);
	if (known)
		return err_new(ERR_FORBIDDEN,
			       "forbidden: the token may not create pods/exec for this sandbox in "
			       "namespace %s",
			       ask->ns);
	if (ask->way == ROUTER_BY_HEADER)
		return err_new(ERR_UNAUTHENTICATED, ambient_help, ask->ns);
	return err_new(ERR_UNAUTHENTICATED, shown_help, ask->ns);
}

/* What the gate says about this port. Nobody can be asked here, and nothing that would outlive what
 * lets an agent in is given to one. */
static struct err *gate_lets_in(struct serve *s, const struct router_ask *ask, const char *user)
{
	const struct gate_ask what = { .user = user,
				       .ns = ask->ns,
				       .sandbox = ask->sandbox,
				       .door = gate_door_of_port(ask->port) };
	struct gate_answer answer;

	if (str_eq(http_request_path(ask->request), ROUTER_MINT_PATH))
		return err_new(ERR_FORBIDDEN,
			       "forbidden: a URL would outlive what lets an agent in");
	gate_decide(s->gate, &what, &answer);
	router_ask_review(ask);
	if (answer.verdict == VERDICT_ASK)
		return err_new(ERR_FORBIDDEN,
			       "forbidden: connections of agent %s must be approved, and through "
			       "the router nobody can be asked",
			       answer.agent);
	return answer.why;
}

static struct err *user_may(struct serve *s, const struct access_target *who,
			    const struct server_entry *to)
{
	return server_user_may(s->server, who,
			       &(struct server_act){ .verb = "create",
						     .group = "",
						     .plural = "pods",
						     .ns = to->ns,
						     .name = to->pod,
						     .sub = to->sub });
}

/* A user who is known. Of an agent, what its token leaves of its rights counts as well. */
static struct err *user_may_enter(struct serve *s, const struct access_target *who,
				  const struct router_ask *ask, const char *pod)
{
	bool runtime = gate_door_of_port(ask->port) == GATE_RUNTIME;
	bool agent = gate_is_agent(who->user);
	struct err *e = NULL;

	if (!agent || runtime)
		e = user_may(s, who, &(struct server_entry){ ask->ns, pod, "exec" });
	if (!e && agent)
		e = user_may(s, who, &(struct server_entry){ ask->ns, pod, "portforward" });
	if (!e && agent)
		e = gate_lets_in(s, ask, who->user);
	return e;
}

struct err *serve_may_have_url(struct serve *s, const struct access_target *who, const char *ns,
			       const char *sandbox)
{
	autoptr(object) o = client_get(s->router_client, s->sandboxes, ns, sandbox);

	if (gate_is_agent(who->user))
		return err_new(ERR_FORBIDDEN,
			       "forbidden: a URL would outlive what lets an agent in");
	return user_may(
		s, who,
		&(struct server_entry){ ns, o ? sandbox_view(o)->pod_name : sandbox, "exec" });
}

/* Whether an agent would be let in again. */
static bool may_stay(void *arg, const struct router_stay *stay)
{
	struct serve *s = arg;
	const struct gate_ask what = { .user = stay->who,
				       .ns = stay->ns,
				       .sandbox = stay->sandbox,
				       .door = gate_door_of_port(stay->port),
				       .begun = true };
	struct gate_answer answer;

	gate_decide(s->gate, &what, &answer);
	err_free(answer.why);
	return answer.verdict == VERDICT_ALLOW;
}

void serve_review_router(struct serve *s)
{
	if (s->router)
		router_review(s->router, may_stay, s);
}

/* A request through a tunnel: what its user may do. */
static struct err *tunnel_may_enter(struct serve *s, const struct router_ask *ask, const char *pod)
{
	struct access_target who;

	if (!serve_find_ticket(s, ask->caller.ticket, &who))
		return err_new(ERR_UNAUTHENTICATED, "the tunnel has ended");
	router_ask_is(ask, "%s", who.user);
	return user_may_enter(s, &who, ask, pod);
}

/* A certificate that was shown to the router: its user is known, as at the API. */
static struct err *certificate_may_enter(struct serve *s, const struct router_ask *ask,
					 const char *pod)
{
	autofree const char **groups = NULL;
	size_t n = 0;

	while (ask->groups && ask->groups[n])
		n++;
	groups = xnew_n(const char *, n + 2);
	for (size_t i = 0; i < n; i++)
		groups[i] = ask->groups[i];
	groups[n] = "system:authenticated";
	router_ask_is(ask, "%s", ask->user);
	return user_may_enter(s, &(struct access_target){ .user = ask->user, .groups = groups },
			      ask, pod);
}

static struct err *header_may_enter(struct serve *s, const struct router_ask *ask, const char *pod,
				    const char *sub, char **ret_user)
{
	return server_may_enter(s->server, http_request_header(ask->request, "Authorization"),
				&(struct server_entry){ ask->ns, pod, sub }, ret_user);
}

/* exec: why it may not run commands there, which counts where commands can be run; taken over. */
static struct err *agent_may_enter(struct serve *s, const struct router_ask *ask, const char *pod,
				   const char *user, struct err *exec)
{
	autoptr(err) no_exec = exec;
	autofree char *same = NULL;
	struct err *e = header_may_enter(s, ask, pod, "portforward", &same);

	if (!e && gate_door_of_port(ask->port) == GATE_RUNTIME)
		e = take(no_exec);
	return e ? e : gate_lets_in(s, ask, user);
}

/* Who may use the router: whoever could read our keys anyway, and whoever may exec. */
static struct err *may_enter(void *arg, const struct router_ask *ask, struct list **ret_wait unused)
{
	struct serve *s = arg;
	autoptr(object) sandbox = NULL;
	autofree char *user = NULL;
	const char *pod;
	struct err *e;

	if (ask->caller.local)
		router_ask_is(ask, ROUTER_LOCAL, ask->caller.uid);
	if (ask->caller.trusted || !wall_stands("router-uid"))
		return NULL;
	if (ask->caller.local && settings_bool(s->settings, "open-to-local-users"))
		return NULL;
	sandbox = client_get(s->router_client, s->sandboxes, ask->ns, ask->sandbox);
	pod = sandbox ? sandbox_view(sandbox)->pod_name : ask->sandbox;
	if (ask->caller.ticket)
		return tunnel_may_enter(s, ask, pod);
	if (ask->user && !http_request_header(ask->request, "Authorization"))
		return certificate_may_enter(s, ask, pod);
	e = header_may_enter(s, ask, pod, "exec", &user);
	router_ask_is(ask, "%s", user ? user : "");
	if (gate_is_agent(user))
		return agent_may_enter(s, ask, pod, user, e);
	return explain_refusal(e, ask);
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

static struct err *start_node_ports(struct serve *s, const struct router_spec *router)
{
	const struct node_ports_spec spec = {
		.node_name = s->node_name,
		.mark = router->mark,
		.max_conns = router->max_conns / 4,
		.has_group = router->has_group,
		.group = router->group,
		.audit = s->audit,
		.enter = may_connect,
		.arg = s,
	};

	if (str_eq(settings_text(s->settings, "node-ports"), "none"))
		return NULL;
	return node_ports_start(s->loop, s->router_client, &spec, &s->node_ports);
}

/* Clients of a Gateway connect to port 80 of the address in its status, so an address it must be.
 */
static struct err *start_gateway(struct serve *s)
{
	const char *text = settings_text(s->settings, "gateway-listen");
	struct in6_addr v6;
	struct in_addr v4;
	autofree char *addr = NULL;
	bool is_v4;
	struct err *e;

	if (!text)
		return NULL;
	is_v4 = inet_pton(AF_INET, text, &v4) == 1;
	if (is_v4 ? !v4.s_addr
		  : inet_pton(AF_INET6, text, &v6) != 1 || IN6_IS_ADDR_UNSPECIFIED(&v6))
		return err_new(ERR_INVALID,
			       "--gateway-listen %s: not one address of this machine, such as "
			       "127.0.0.2",
			       text);
	addr = xasprintf(is_v4 ? "%s:80" : "[%s]:80", text);
	e = router_listen_too(s->router, addr);
	return e ? err_wrap(e, "--gateway-listen %s", text) : NULL;
}

static void start_front(struct serve *s)
{
	char address[16];

	node_gateway(s->node, address);
	s->pods = kinds_need(s->kinds, "v1", "Pod");
	s->front = front_new(s->loop, s->router_client,
			     &(struct front_spec){
				     .node_name = s->node_name,
				     .address = address,
				     .gateway = settings_text(s->settings, "gateway-listen"),
			     });
	serve_open_door(s, node_access(s->node));
}

static bool wake(void *arg, const char *ns, const char *sandbox)
{
	return control_wake(((struct serve *)arg)->control, ns, sandbox, "request");
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
		.wake = wake,
		.wake_arg = s,
		.audit = s->audit,
	};
	struct ways ways = { 0 };
	struct err *e = group ? find_group(group, &spec.group) : NULL;

	if (!e)
		e = ways_read(s, &ways, &spec);
	s->sandboxes = kinds_need(s->kinds, API_SANDBOX, "Sandbox");
	if (!e)
		e = router_start(s->loop, s->router_client, &spec, &s->router);
	if (!e) {
		router_set_policy(s->router, may_enter, s);
		router_set_sni_policy(s->router, may_connect, s);
		e = start_gateway(s);
	}
	if (!e)
		e = start_node_ports(s, &spec);
	if (!e)
		start_front(s);
	ways_done(&ways);
	return e;
}
