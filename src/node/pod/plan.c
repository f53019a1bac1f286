/* SPDX-License-Identifier: Apache-2.0 */
#include "node/launch/plan.h"

#include <strings.h>

#include "api/agents.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/wall.h"
#include "node/host/numbers.h"
#include "node/host/oom.h"
#include "node/image/image.h"
#include "node/inside/inside.h"
#include "node/network/resolver.h"
#include "node/pod/pod_priv.h"
#include "wire/wire.h"

/*
 * From a container's spec to what the runtime needs (the plan: root, mounts, limits) and to what
 * the guest needs (the start: arguments, environment, ids). Both are made on the loop from objects
 * in memory; they touch no file.
 */
enum {
	CPU_SHARE = 100,   /* thousandths of a CPU, of a container that requests none */
	HOSTNAME_MAX = 63, /* what the kernel takes */
};

static int64_t count_sidecars(const struct pod *p)
{
	int64_t n = 0;

	for (size_t i = 0; i < p->n_init; i++)
		n += p->view->containers[i].sidecar;
	return n;
}

/*
 * A Pod's processes are counted for the Pod. Its containers have control groups of their own, so
 * each gets its exact part of the number; init containers run one at a time and get all that
 * sidecars leave.
 */
static int64_t pids_of(const struct container *c)
{
	const struct pod *p = c->pod;
	int64_t all = p->pods->budget.pod_pids, sidecars = count_sidecars(p);
	int64_t n = (int64_t)(p->n_containers - p->n_init) + sidecars;
	bool first = c == p->containers[p->n_init];

	if (!all || !wall_stands("pod-pids"))
		return all;
	if (c->view->init && !c->view->sidecar)
		return MAX(all - all / n * sidecars, (int64_t)1);
	return MAX(all / n + (first ? all % n : 0), (int64_t)1);
}

/* As the kubelet's, but above 0: the daemon may not be allowed to go below that. */
static int64_t oom_score_of(const struct container *c)
{
	int64_t all = c->pod->pods->budget.memory_capacity / 1000;
	int64_t request = container_amount(c, "requests.memory") / 1000;

	if (str_eq(c->pod->view->qos, "Guaranteed"))
		return OOM_GUARANTEED;
	if (str_eq(c->pod->view->qos, "BestEffort") || !all)
		return OOM_BEST_EFFORT;
	return MIN(MAX(1000 - request / all, (int64_t)OOM_BURSTABLE_MIN),
		   (int64_t)OOM_BURSTABLE_MAX);
}

/* A debugger has no limits of its own. If all containers of its Pod have one, it gets what they
 * have together: it would get round them otherwise. */
static int64_t debugger_limit(const struct container *c, const char *what)
{
	const struct pod_view *v = c->pod->view;
	int64_t sum = 0;

	for (size_t i = v->n_init; i < v->n_containers - v->n_ephemeral; i++) {
		int64_t one = pod_container_quantity(&v->containers[i], what);

		if (!one)
			return 0;
		sum += one;
	}
	return sum;
}

struct plan_limits container_limits(const struct container *c)
{
	int64_t share = container_amount(c, "requests.cpu");
	struct plan_limits l = {
		.memory = (container_amount(c, "limits.memory") + 999) / 1000,
		.cpu = container_amount(c, "limits.cpu"),
		.disk = pod_container_quantity(c->view, "limits.ephemeral-storage") / 1000,
		.cpu_share = CPU_SHARE,
		.pids = pids_of(c),
		.oom_score = oom_score_of(c),
	};

	if (c->view->ephemeral) {
		l.memory = (debugger_limit(c, "limits.memory") + 999) / 1000;
		l.cpu = debugger_limit(c, "limits.cpu");
	}
	if (!l.memory && wall_stands("default-memory"))
		l.memory = c->pod->pods->budget.default_memory;
	if (l.cpu)
		l.cpu_share = l.cpu;
	if (share || json_at_path(container_given(c), "requests.cpu"))
		l.cpu_share = share;
	return l;
}

static void add_own_name(const struct pod *p, const char *ip, const char *host, struct buf *b)
{
	if (*p->view->subdomain && p->pods->resolver)
		buf_printf(b, "%s\t%s.%s.%s.svc.%s\t%s\n", ip, host, p->view->subdomain,
			   p->view->ns, p->pods->domain, host);
	else
		buf_printf(b, "%s\t%s\n", ip, host);
}

static const char *hosts_file(const struct pod *p, const char *host, struct arena *a)
{
	autobuf b = { 0 };

	buf_add_str(&b, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n");
	if (p->net)
		add_own_name(p, p->net->ip, host, &b);
	if (p->net && *p->net->ip6)
		add_own_name(p, p->net->ip6, host, &b);
	for (size_t i = 0; i < p->view->n_host_aliases; i++) {
		const struct pod_host_alias *h = &p->view->host_aliases[i];

		buf_add_str(&b, str_or(h->ip, "#"));
		for (const char **name = h->hostnames; name && *name; name++)
			buf_printf(&b, "\t%s", *name);
		buf_add_char(&b, '\n');
	}
	return arena_strdup(a, buf_str(&b));
}

static bool is_option(const struct pod_view *v, const char *name)
{
	for (size_t i = 0; i < v->n_dns_options; i++)
		if (str_eq(v->dns_options[i].name, name))
			return true;
	return false;
}

/*
 * As the kubelet's, but for one thing: a sandbox reaches no name server of the host's network, so
 * `Default` names the node's, which passes on to those of the host whatever is no object's name.
 */
static const char *resolv_file(const struct pod *p, struct arena *a)
{
	const struct pods *ps = p->pods;
	const struct pod_view *v = p->view;
	bool own = ps->resolver && !str_eq(v->dns_policy, "None");
	bool cluster = own && !str_eq(v->dns_policy, "Default");
	autobuf b = { 0 }, search = { 0 };

	if (own)
		buf_printf(&b, "nameserver %s\n", ps->name_server);
	for (const char **s = v->nameservers; s && *s; s++)
		if (!own || !str_eq(*s, ps->name_server))
			buf_printf(&b, "nameserver %s\n", *s);
	if (cluster)
		buf_printf(&search, " %s.svc.%s svc.%s %s", v->ns, ps->domain, ps->domain,
			   ps->domain);
	if (own)
		resolver_searches(ps->resolver, &search);
	for (const char **s = v->searches; s && *s; s++)
		buf_printf(&search, " %s", *s);
	if (search.len)
		buf_printf(&b, "search%s\n", buf_str(&search));
	if (cluster && !is_option(v, "ndots"))
		buf_add_str(&b, "options ndots:5\n");
	for (size_t i = 0; i < v->n_dns_options; i++) {
		const struct pod_dns_option *o = &v->dns_options[i];

		buf_printf(&b, "options %s%s%s\n", o->name, o->value ? ":" : "",
			   str_or(o->value, ""));
	}
	return arena_strdup(a, buf_str(&b));
}

static const char **layers_of(const struct image *img, struct arena *a)
{
	const char **list;
	size_t n = 0;

	while (img->layers && img->layers[n])
		n++;
	list = arena_new_n(a, const char *, n + 1);
	for (size_t i = 0; i < n; i++)
		list[i] = img->layers[i];
	return list;
}

struct plan_image container_image(const struct container *c, struct arena *a)
{
	return (struct plan_image){ .lower = layers_of(c->image, a),
				    .host_usr = c->image->host_usr,
				    .usr = c->image->usr };
}

/* Absolute, and without a slash at its end. */
static const char *workdir_of(const struct container *c, struct arena *a)
{
	const char *text = str_or(str_or(c->view->workdir, image_text(c->image, "workdir")), "/");
	char *path = arena_printf(a, "%s%s", *text == '/' ? "" : "/", text);

	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	return path;
}

static bool has_expressions(const struct pod_container_view *c)
{
	for (size_t i = 0; i < c->n_mounts; i++)
		if (c->mounts[i].sub_path_expr)
			return true;
	return false;
}

static bool is_taken(const struct pod_container_view *c, const char *path)
{
	const size_t len = strlen(path);

	for (size_t i = 0; i < c->n_mounts; i++)
		if (!strncmp(c->mounts[i].path, path, len) &&
		    (!c->mounts[i].path[len] || c->mounts[i].path[len] == '/'))
			return true;
	return false;
}

/* After all others, one of which may be /run. A Pod that mounts something of its own there has that
 * instead. */
static void add_identity(const struct container *c, struct arena *a, struct plan *plan)
{
	const struct pods *ps = c->pod->pods;
	autofree char *dir = ps->inside ? inside_dir(ps->inside, c->pod->obj->uid) : NULL;

	if (dir && !is_taken(c->view, INSIDE_AT) && !plan_oci_own_kernel(&plan->oci))
		plan->mounts[plan->n_mounts++] = (struct plan_mount){ .to = INSIDE_AT,
								      .from = arena_strdup(a, dir),
								      .readonly = true,
								      .noexec = true,
								      .spare = true,
								      .own = true };
}

struct err *container_plan(struct container *c, struct arena *a, struct plan *ret)
{
	struct pod *p = c->pod;
	struct err *e;
	struct volume_pod v = pod_volumes(p);
	const char *host = arena_strndup(a, p->view->hostname,
					 MIN(strlen(p->view->hostname), (size_t)HOSTNAME_MAX));

	*ret = (struct plan){
		.image = container_image(c, a),
		.readonly = c->view->readonly_root,
		.hostname = host,
		.etc_hostname = arena_printf(a, "%s\n", host),
		.etc_hosts = hosts_file(p, host, a),
		.etc_resolv_conf = resolv_file(p, a),
		.workdir = workdir_of(c, a),
		.limits = container_limits(c),
	};
	e = pod_runtime_find(p, a, &ret->oci);
	if (!e && has_expressions(c->view))
		e = env_build(c, a, &v.env);
	if (!e)
		e = volumes_mounts(p->pods->volumes, &v, c->view, a, ret);
	if (!e)
		add_identity(c, a, ret);
	return e;
}

static const char **expand_all(struct arena *a, const char **argv, const char *const *words,
			       const struct map *values)
{
	for (; words && *words; words++)
		*argv++ = env_expand(a, *words, values);
	return argv;
}

static const char **config_words(const struct image *img, const char *member, struct arena *a)
{
	const struct json *list = img->config ? json_get(json_root(img->config), member) : NULL;
	const char **words = arena_new_n(a, const char *, json_len(list) + 1);
	size_t n = 0;

	json_each(w, list)
		words[n++] = str_or(json_str(w.val), "");
	return words;
}

static size_t count_words(const char *const *words)
{
	size_t n = 0;

	while (words && words[n])
		n++;
	return n;
}

/* command replaces the image's entry point, args its arguments; both are expanded. */
static const char **arguments(struct container *c, struct arena *a, const char **env)
{
	const char **first = c->view->command, **second = c->view->args;
	autoptr(map) values = map_new(NULL);
	const char **argv;

	for (const char **e = env; *e; e++) {
		const char *eq = strchr(*e, '=');

		map_put(values, arena_strndup(a, *e, (size_t)(eq - *e)),
			(void *)(uintptr_t)(eq + 1));
	}
	if (!second && !first)
		second = config_words(c->image, "cmd", a);
	if (!first)
		first = config_words(c->image, "entrypoint", a);
	argv = arena_new_n(a, const char *, count_words(first) + count_words(second) + 1);
	(void)expand_all(a, expand_all(a, argv, first, values), second, values);
	return argv;
}

/* runAsUser replaces the image's user with its group. */
static struct err *set_ids(struct container *c, struct arena *a, struct wire_start *s)
{
	const struct pod_view *pod = c->pod->view;
	struct err *e = NULL;

	if (c->view->user >= 0)
		s->uid = (uint32_t)c->view->user;
	else
		e = image_user(c->image, &s->uid, &s->gid);
	if (e)
		return e;
	if (c->view->group >= 0)
		s->gid = (uint32_t)c->view->group;
	s->groups = arena_new_n(a, uint32_t, pod->n_groups + 1);
	for (size_t i = 0; i < pod->n_groups; i++)
		s->groups[s->n_groups++] = pod->groups[i];
	if (pod->fs_group >= 0)
		s->groups[s->n_groups++] = (uint32_t)pod->fs_group;
	return NULL;
}

/*
 * Of the names that are no capability of ours, check.c has refused to add any but the one that a
 * debugger does without, and to drop one changes nothing.
 */
static uint64_t capability_bits(const char *const *names)
{
	uint64_t bits = 0;

	for (; names && *names; names++) {
		int bit = plan_capability(*names);

		if (bit >= 0)
			bits |= UINT64_C(1) << bit;
	}
	return bits;
}

static bool drops_all(const struct pod_container_view *v)
{
	for (const char **name = v->drop_capabilities; name && *name; name++)
		if (!strcasecmp(*name, "ALL"))
			return true;
	return false;
}

/* In the order of container runtimes: ALL is dropped first, one that is named last. */
static uint64_t kept_capabilities(const struct container *c)
{
	uint64_t keep = drops_all(c->view) ? 0 : plan_capabilities();

	keep |= capability_bits(c->view->add_capabilities);
	return keep & ~capability_bits(c->view->drop_capabilities);
}

/* Commands that only hold a container open: nothing of theirs will ever listen. */
static bool is_idle(const char *const *argv)
{
	static const char *const idle[] = { "sleep", "pause", "tail", NULL };
	const char *slash = argv[0] ? strrchr(argv[0], '/') : NULL;

	return !argv[0] || str_in(slash ? slash + 1 : argv[0], idle);
}

/* True if a comma-separated list has this word. */
static bool list_has(const char *list, const char *word)
{
	struct span left = SPAN(list);

	while (left.p)
		if (span_eq(span_trim(span_cut(left, ',', &left)), word))
			return true;
	return false;
}

/* The container that an annotation of the Pod means: it declares the port, or is the only one. */
static bool is_meant(const struct container *c, uint16_t port)
{
	const struct pod_view *p = c->pod->view;

	if (pod_container_has_port(c->view, port))
		return true;
	return p->n_containers - p->n_ephemeral == 1 &&
	       str_eq(c->view->name, p->containers[0].name);
}

/* What the annotation asks for is served at once, and nothing else is. */
static uint32_t annotated_flags(const struct container *c, const char *wish)
{
	uint32_t flags = 0;

	if (list_has(wish, "none"))
		return 0;
	if (list_has(wish, "python") && is_meant(c, RUNTIME_PORT))
		flags |= WIRE_RUNTIME_HTTP | WIRE_RUNTIME_NOW;
	if (list_has(wish, "sandboxd") && is_meant(c, SANDBOXD_REST_PORT))
		flags |= WIRE_RUNTIME_REST | WIRE_REST_NOW;
	return flags;
}

/*
 * Otherwise the ports say it. 8080 alone does not: every other web server declares it, and would
 * find it taken if it is slow to start. Together with the port of sandboxd's gRPC it is meant.
 */
static uint32_t runtime_flags(const struct container *c, const char *const *argv)
{
	const char *wish = c->pod->view->runtime;
	bool now = is_idle(argv);
	uint32_t flags = 0;

	if (!str_empty(wish))
		return annotated_flags(c, wish);
	if (pod_container_has_port(c->view, RUNTIME_PORT))
		flags |= WIRE_RUNTIME_HTTP | (now ? WIRE_RUNTIME_NOW : 0);
	if (pod_container_has_port(c->view, SANDBOXD_REST_PORT) &&
	    pod_container_has_port(c->view, SANDBOXD_GRPC_PORT))
		flags |= WIRE_RUNTIME_REST | (now ? WIRE_REST_NOW : 0);
	return flags;
}

struct err *container_start(struct container *c, struct arena *a, struct wire_start *ret)
{
	struct wire_start s = { .flags = WIRE_LOG_STDOUT, .runtime_port = RUNTIME_PORT };
	struct err *e = env_build(c, a, &s.env);

	if (!e)
		e = set_ids(c, a, &s);
	if (e)
		return e;
	s.argv = arguments(c, a, s.env);
	s.cwd = workdir_of(c, a);
	s.keep_caps = kept_capabilities(c);
	s.message_path = str_or(c->view->message_path, NULL);
	if (c->view->message_from_log)
		s.flags |= WIRE_MESSAGE_LOG;
	s.flags |= runtime_flags(c, s.argv);
	if (c->view->tty)
		s.flags |= WIRE_TTY;
	if (c->view->stdin_open)
		s.flags |= WIRE_STDIN_OPEN | (c->view->stdin_once ? WIRE_STDIN_ONCE : 0);
	*ret = s;
	return NULL;
}
