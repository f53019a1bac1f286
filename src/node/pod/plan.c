/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/capability.h>

#include "api/meta.h"
#include "base/arena.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/host/instance.h"
#include "node/pod/pod_priv.h"

/*
 * From a container's spec to what the launcher needs (the plan: root, mounts, limits) and to what
 * the guest needs (the start: arguments, environment, ids). Both are made on the loop from objects
 * in memory; they touch no file.
 */
enum {
	PIDS_MAX = 1024,
	RUNTIME_PORT = 8888,
};

/* What securityContext.capabilities.add may ask for: it gives nothing outside the sandbox. */
static const struct {
	const char *name;
	unsigned bit;
} capabilities[] = {
	{ "CHOWN", CAP_CHOWN },   { "DAC_OVERRIDE", CAP_DAC_OVERRIDE },
	{ "FOWNER", CAP_FOWNER }, { "FSETID", CAP_FSETID },
	{ "KILL", CAP_KILL },     { "NET_BIND_SERVICE", CAP_NET_BIND_SERVICE },
	{ "SETGID", CAP_SETGID }, { "SETPCAP", CAP_SETPCAP },
	{ "SETUID", CAP_SETUID }, { "SYS_CHROOT", CAP_SYS_CHROOT },
};

char *root_path(const struct node *n, const char *slot)
{
	return xasprintf("%s/%s", n->roots_dir, slot);
}

static int64_t quantity(const struct json *list, const char *what, bool milli)
{
	const struct json *q = json_get(list, what);
	int64_t v = 0;

	if (q)
		err_free(quantity_parse_milli(q, &v)); /* validated when it was written */
	return milli ? v : v / 1000;
}

static void add_limits(struct json_doc *d, struct json *plan, const struct container *c)
{
	const struct json *r = json_get(c->spec, "resources");
	const struct json *max = json_get(r, "limits"), *min = json_get(r, "requests");
	struct json *l = json_need_obj(d, plan, "limits");
	int64_t cpu = quantity(max, "cpu", true);

	json_set_int(d, l, "memory", quantity(max, "memory", false));
	json_set_int(d, l, "cpu", cpu);
	json_set_int(d, l, "cpu_share", json_get(min, "cpu") ? quantity(min, "cpu", true) : cpu);
	json_set_int(d, l, "pids", PIDS_MAX);
}

static void add_hosts(struct json_doc *d, struct json *etc, const struct pod *p, const char *host)
{
	autobuf b = { 0 };

	buf_add_str(&b, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n");
	if (p->net)
		buf_printf(&b, "%s\t%s\n", p->net->ip, host);
	json_each(a, json_get(pod_spec(p), "hostAliases")) {
		buf_add_str(&b, str_or(json_get_str(a.val, "ip"), "#"));
		json_each(h, json_get(a.val, "hostnames"))
			buf_printf(&b, "\t%s", str_or(json_str(h.val), ""));
		buf_add_char(&b, '\n');
	}
	json_set_str(d, etc, "hosts", buf_str(&b));
}

static void add_resolv(struct json_doc *d, struct json *etc, const struct pod *p)
{
	const struct json *dns = json_get(pod_spec(p), "dnsConfig");
	autobuf b = { 0 };

	json_each(s, json_get(dns, "nameservers"))
		buf_printf(&b, "nameserver %s\n", str_or(json_str(s.val), ""));
	if (json_len(json_get(dns, "searches"))) {
		buf_add_str(&b, "search");
		json_each(s, json_get(dns, "searches"))
			buf_printf(&b, " %s", str_or(json_str(s.val), ""));
		buf_add_char(&b, '\n');
	}
	json_each(o, json_get(dns, "options")) {
		const char *value = json_get_str(o.val, "value");

		buf_printf(&b, "options %s%s%s\n", str_or(json_get_str(o.val, "name"), ""),
			   value ? ":" : "", str_or(value, ""));
	}
	json_set_str(d, etc, "resolv.conf", buf_str(&b));
}

static void add_etc(struct json_doc *d, struct json *plan, const struct pod *p)
{
	const char *host = str_or(json_get_str(pod_spec(p), "hostname"), p->obj->name);
	struct json *etc = json_need_obj(d, plan, "etc");
	autofree char *short_host = xstrndup(host, 63); /* what the kernel takes */

	json_set_str(d, plan, "hostname", short_host);
	json_set(d, etc, "hostname", json_new_strf(d, "%s\n", short_host));
	add_hosts(d, etc, p, short_host);
	add_resolv(d, etc, p);
}

struct err *plan_make(struct container *c, struct json_doc **ret)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *plan = json_obj(d), *image = json_need_obj(d, plan, "image");
	struct json *lower = json_need_arr(d, image, "lower");
	struct err *e;

	json_set_root(d, plan);
	for (char **l = c->image->layers; *l; l++)
		json_push_str(d, lower, *l);
	json_set_bool(d, image, "host_usr", c->image->host_usr);
	json_set_bool(
		d, plan, "readonly",
		json_bool(json_at_path(c->spec, "securityContext.readOnlyRootFilesystem"), false));
	add_etc(d, plan, c->pod);
	add_limits(d, plan, c);
	e = volumes_mounts(c, d, json_need_arr(d, plan, "mounts"));
	if (e)
		return e;
	*ret = take(d);
	return NULL;
}

/* command replaces the image's entry point, args its arguments; both are expanded. */
static const char **arguments(struct container *c, struct arena *a, const char **env)
{
	const struct json *config = c->image->config ? json_root(c->image->config) : NULL;
	const struct json *command = json_get(c->spec, "command"),
			  *args = json_get(c->spec, "args");
	const struct json *first, *second;
	autoptr(map) values = map_new(NULL);
	const char **argv;
	size_t n = 0;

	for (const char **e = env; *e; e++) {
		const char *eq = strchr(*e, '=');

		map_put(values, arena_strndup(a, *e, (size_t)(eq - *e)),
			(void *)(uintptr_t)(eq + 1));
	}
	first = json_len(command) ? command : json_get(config, "entrypoint");
	second = json_len(args) ? args : json_len(command) ? NULL : json_get(config, "cmd");
	argv = arena_new_n(a, const char *, json_len(first) + json_len(second) + 1);
	json_each(w, first)
		argv[n++] = env_expand(a, str_or(json_str(w.val), ""), values);
	json_each(w, second)
		argv[n++] = env_expand(a, str_or(json_str(w.val), ""), values);
	return argv;
}

static int64_t security_int(const struct container *c, const char *what, int64_t otherwise)
{
	const struct json *own = json_get(c->spec, "securityContext");
	const struct json *pod = json_get(pod_spec(c->pod), "securityContext");

	return json_get_int(own, what, json_get_int(pod, what, otherwise));
}

bool plan_wants_nonroot(const struct container *c)
{
	const struct json *own = json_get(c->spec, "securityContext");
	const struct json *pod = json_get(pod_spec(c->pod), "securityContext");

	return json_get_bool(own, "runAsNonRoot", json_get_bool(pod, "runAsNonRoot", false));
}

/* "1000", "1000:1000": an image's user by number; names are not looked up. */
static void image_user(const struct image *img, uint32_t *uid, uint32_t *gid)
{
	const char *text = img->config ? json_get_str(json_root(img->config), "user") : NULL;
	struct span rest, first;
	autofree char *u = NULL, *g = NULL;
	uint64_t v;

	if (!text || !*text)
		return;
	first = span_cut(SPAN(text), ':', &rest);
	u = xstrndup(first.p, first.len);
	g = rest.p ? xstrndup(rest.p, rest.len) : NULL;
	v = *uid;
	err_free(parse_uint(u, 65535, &v));
	*uid = (uint32_t)v;
	v = *gid;
	if (g)
		err_free(parse_uint(g, 65535, &v));
	*gid = (uint32_t)v;
}

static void set_ids(struct container *c, struct arena *a, struct wire_start *s)
{
	const struct json *pod = json_get(pod_spec(c->pod), "securityContext");
	const struct json *more = json_get(pod, "supplementalGroups");
	int64_t fs = json_get_int(pod, "fsGroup", -1);

	image_user(c->image, &s->uid, &s->gid);
	s->uid = (uint32_t)security_int(c, "runAsUser", s->uid);
	s->gid = (uint32_t)security_int(c, "runAsGroup", s->gid);
	s->groups = arena_new_n(a, uint32_t, json_len(more) + 1);
	json_each(g, more)
		s->groups[s->n_groups++] = (uint32_t)json_int(g.val, 0);
	if (fs >= 0)
		s->groups[s->n_groups++] = (uint32_t)fs;
}

static uint64_t kept_capabilities(const struct container *c)
{
	uint64_t keep = 0;

	json_each(w, json_at_path(c->spec, "securityContext.capabilities.add")) {
		const char *name = str_or(json_str(w.val), "");

		if (str_starts(name, "CAP_"))
			name += 4;
		for (size_t i = 0; i < ARRAY_LEN(capabilities); i++)
			if (str_eq(name, capabilities[i].name))
				keep |= UINT64_C(1) << capabilities[i].bit;
	}
	return keep;
}

static bool declares_port(const struct container *c, int64_t port)
{
	json_each(p, json_get(c->spec, "ports"))
		if (json_get_int(p.val, "containerPort", 0) == port &&
		    str_eq(str_or(json_get_str(p.val, "protocol"), "TCP"), "TCP"))
			return true;
	return false;
}

/* Commands that only hold a container open: nothing of theirs will ever listen. */
static bool is_idle(const char *const *argv)
{
	static const char *const idle[] = { "sleep", "pause", "tail", NULL };
	const char *slash = argv[0] ? strrchr(argv[0], '/') : NULL;

	return !argv[0] || str_in(slash ? slash + 1 : argv[0], idle);
}

static uint32_t runtime_flags(const struct container *c, const char *const *argv)
{
	const char *wish = object_annotation(c->pod->obj, "cay.dev/runtime");

	if (!declares_port(c, RUNTIME_PORT) || str_eq(wish, "none"))
		return 0;
	return WIRE_RUNTIME_HTTP | (is_idle(argv) || str_eq(wish, "python") ? WIRE_RUNTIME_NOW : 0);
}

struct err *plan_start(struct container *c, struct arena *a, struct wire_start *ret)
{
	struct wire_start s = { .flags = WIRE_LOG_STDOUT, .runtime_port = RUNTIME_PORT };
	const char *workdir = json_get_str(c->spec, "workingDir");
	struct err *e = env_build(c, a, &s.env);

	if (e)
		return e;
	if (!workdir && c->image->config)
		workdir = json_get_str(json_root(c->image->config), "workdir");
	s.argv = arguments(c, a, s.env);
	s.cwd = arena_strdup(a, str_or(workdir, "/"));
	set_ids(c, a, &s);
	s.keep_caps = kept_capabilities(c);
	s.flags |= runtime_flags(c, s.argv);
	if (json_get_bool(c->spec, "tty", false))
		s.flags |= WIRE_TTY;
	if (json_get_bool(c->spec, "stdin", false))
		s.flags |= WIRE_STDIN_OPEN;
	*ret = s;
	return NULL;
}
