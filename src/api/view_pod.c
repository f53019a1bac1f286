/* SPDX-License-Identifier: Apache-2.0 */
#include "api/view_pod.h"

#include "api/meta.h"
#include "api/object.h"
#include "api/pod.h"
#include "base/arena.h"
#include "base/str.h"
#include "json/json.h"

static const char *name_of(const struct json *v, const char *key)
{
	return str_or(json_get_str(v, key), "");
}

/* NULL-terminated; NULL when the list is empty. */
static const char **strings(struct arena *a, const struct json *list)
{
	const char **s = json_len(list) ? arena_new_n(a, const char *, json_len(list) + 1) : NULL;
	size_t n = 0;

	if (s)
		json_each(v, list)
			s[n++] = str_or(json_str(v.val), "");
	return s;
}

static int64_t quantity(const struct json *q, int64_t otherwise)
{
	int64_t milli = otherwise;

	if (q)
		err_free(quantity_parse_milli(q, &milli)); /* validated when the Pod was written */
	return milli;
}

static int64_t between(int64_t v, int64_t min, int64_t max)
{
	return MIN(MAX(v, min), max);
}

static struct pod_field_ref field_ref(const struct json *from)
{
	const struct json *field = json_get(from, "fieldRef");
	const struct json *resource = json_get(from, "resourceFieldRef");
	struct pod_field_ref f = { .divisor = 1000 };

	if (field) {
		f.path = name_of(field, "fieldPath");
	} else if (resource) {
		f.resource = name_of(resource, "resource");
		f.container = json_get_str(resource, "containerName");
		f.divisor = quantity(json_get(resource, "divisor"), 1000);
	}
	if (f.divisor <= 0)
		f.divisor = 1000;
	return f;
}

static struct pod_env_view env_view(const struct json *v)
{
	const struct json *from = json_get(v, "valueFrom"), *ref = NULL;
	struct pod_env_view e = { .name = name_of(v, "name") };

	if (!from) {
		e.value = name_of(v, "value");
		return e;
	}
	if ((ref = json_get(from, "configMapKeyRef")))
		e.source = POD_ENV_CONFIG_MAP;
	else if ((ref = json_get(from, "secretKeyRef")))
		e.source = POD_ENV_SECRET;
	else
		e.source = POD_ENV_FIELD;
	e.ref = (struct pod_key_ref){ .name = name_of(ref, "name"),
				      .key = name_of(ref, "key"),
				      .optional = json_get_bool(ref, "optional", false) };
	e.field = field_ref(from);
	return e;
}

static void read_env(struct pod_container_view *c, const struct json *spec, struct arena *a)
{
	const struct json *env = json_get(spec, "env"), *from = json_get(spec, "envFrom");

	c->env = arena_new_n(a, struct pod_env_view, json_len(env) + 1);
	json_each(v, env)
		c->env[c->n_env++] = env_view(v.val);
	c->env_from = arena_new_n(a, struct pod_env_from_view, json_len(from) + 1);
	json_each(v, from) {
		bool secret = json_get(v.val, "secretRef") != NULL;
		const struct json *ref = json_get(v.val, secret ? "secretRef" : "configMapRef");

		c->env_from[c->n_env_from++] = (struct pod_env_from_view){
			.secret = secret,
			.name = name_of(ref, "name"),
			.prefix = name_of(v.val, "prefix"),
			.optional = json_get_bool(ref, "optional", false),
		};
	}
}

static void read_ports(struct pod_container_view *c, const struct json *spec, struct arena *a)
{
	const struct json *ports = json_get(spec, "ports");

	c->ports = arena_new_n(a, struct pod_port_view, json_len(ports) + 1);
	json_each(v, ports)
		c->ports[c->n_ports++] = (struct pod_port_view){
			.name = json_get_str(v.val, "name"),
			.port = (uint16_t)json_get_int(v.val, "containerPort", 0),
			.tcp = str_eq(str_or(json_get_str(v.val, "protocol"), "TCP"), "TCP"),
		};
}

static void read_mounts(struct pod_container_view *c, const struct json *spec, struct arena *a)
{
	const struct json *mounts = json_get(spec, "volumeMounts");

	c->mounts = arena_new_n(a, struct pod_mount_view, json_len(mounts) + 1);
	json_each(v, mounts)
		c->mounts[c->n_mounts++] = (struct pod_mount_view){
			.volume = name_of(v.val, "name"),
			.path = name_of(v.val, "mountPath"),
			.sub_path = json_get_str(v.val, "subPath"),
			.sub_path_expr = str_or(json_get_str(v.val, "subPathExpr"), NULL),
			.readonly = json_get_bool(v.val, "readOnly", false),
		};
}

static struct pod_quantity_view *quantities(struct arena *a, const struct json *list, size_t *ret_n)
{
	struct pod_quantity_view *q = arena_new_n(a, struct pod_quantity_view, json_len(list) + 1);
	size_t n = 0;

	if (json_is(list, JSON_OBJ))
		json_each(v, list)
			q[n++] = (struct pod_quantity_view){ v.key, quantity(v.val, 0) };
	*ret_n = n;
	return q;
}

/* By number, or by the name of a port of the container. */
static uint16_t port_of(const struct pod_container_view *c, const struct json *v)
{
	const char *name = json_str(v);

	for (size_t i = 0; name && i < c->n_ports; i++)
		if (str_eq(c->ports[i].name, name))
			return c->ports[i].port;
	return (uint16_t)json_int(v, 0);
}

enum {
	HOOK_MAX_S = 86400,
};

static unsigned setting(const struct json *spec, const char *name, int64_t otherwise, int64_t min,
			int64_t max)
{
	return (unsigned)between(json_get_int(spec, name, otherwise), min, max);
}

static const struct pod_header_view *headers_of(const struct json *list, struct arena *a)
{
	struct pod_header_view *h = arena_new_n(a, struct pod_header_view, json_len(list) + 1);
	size_t n = 0;

	json_each(it, list)
		if (json_get_str(it.val, "name"))
			h[n++] = (struct pod_header_view){
				json_get_str(it.val, "name"),
				str_or(json_get_str(it.val, "value"), ""),
			};
	return h;
}

static void read_handler(struct pod_probe_view *p, const struct pod_container_view *c,
			 const struct json *v, struct arena *a)
{
	const struct json *http = json_get(v, "httpGet"), *grpc = json_get(v, "grpc");

	if (http) {
		p->http_path = str_or(json_get_str(http, "path"), "/");
		p->http_headers = headers_of(json_get(http, "httpHeaders"), a);
		p->https = str_eq(json_get_str(http, "scheme"), "HTTPS");
		p->port = port_of(c, json_get(http, "port"));
		return;
	}
	if (grpc) {
		p->grpc_service = str_or(json_get_str(grpc, "service"), "");
		p->port = port_of(c, json_get(grpc, "port"));
		return;
	}
	p->command = strings(a, json_at_path(v, "exec.command"));
	p->port = port_of(c, json_at_path(v, "tcpSocket.port"));
}

static struct pod_probe_view probe_view(const struct pod_container_view *c, const struct json *v,
					struct arena *a)
{
	struct pod_probe_view p = { .there = v != NULL };

	if (!v)
		return p;
	p.delay_s = setting(v, "initialDelaySeconds", 0, 0, 86400);
	p.period_s = setting(v, "periodSeconds", POD_PROBE_PERIOD_S, 1, 86400);
	p.timeout_s = setting(v, "timeoutSeconds", POD_PROBE_TIMEOUT_S, 1, 3600);
	p.need_ok = setting(v, "successThreshold", POD_PROBE_NEED_OK, 1, 1000);
	p.need_bad = setting(v, "failureThreshold", POD_PROBE_NEED_BAD, 1, 1000);
	p.grace_s = json_get_int(v, "terminationGracePeriodSeconds", -1);
	read_handler(&p, c, v, a);
	return p;
}

/* It is tried once, and may take as long as it likes. */
static struct pod_probe_view hook_view(const struct pod_container_view *c, const struct json *v,
				       struct arena *a)
{
	const struct json *sleep = json_get(v, "sleep");
	struct pod_probe_view p = { .there = v != NULL, .need_ok = 1, .need_bad = 1 };

	if (!v)
		return p;
	p.grace_s = -1;
	p.timeout_s = HOOK_MAX_S;
	p.sleeps = sleep != NULL;
	p.sleep_s = setting(sleep, "seconds", 0, 0, HOOK_MAX_S);
	read_handler(&p, c, v, a);
	return p;
}

static const char **capability_names(struct arena *a, const struct json *list)
{
	const char **names = strings(a, list);

	for (const char **w = names; w && *w; w++)
		if (str_starts(*w, "CAP_"))
			*w += strlen("CAP_");
	return names;
}

/* A container's own security context wins over the Pod's. */
static void read_security(struct pod_container_view *c, const struct json *spec,
			  const struct json *pod, struct arena *a)
{
	const struct json *own = json_get(spec, "securityContext");

	c->user = json_get_int(own, "runAsUser", json_get_int(pod, "runAsUser", -1));
	c->group = json_get_int(own, "runAsGroup", json_get_int(pod, "runAsGroup", -1));
	c->nonroot = json_get_bool(own, "runAsNonRoot", json_get_bool(pod, "runAsNonRoot", false));
	c->readonly_root = json_get_bool(own, "readOnlyRootFilesystem", false);
	c->add_capabilities = capability_names(a, json_at_path(own, "capabilities.add"));
	c->drop_capabilities = capability_names(a, json_at_path(own, "capabilities.drop"));
}

static void read_resources(struct pod_container_view *c, const struct json *spec, struct arena *a)
{
	c->resources = json_get(spec, "resources");
	c->limits = quantities(a, json_get(c->resources, "limits"), &c->n_limits);
	c->requests = quantities(a, json_get(c->resources, "requests"), &c->n_requests);
	json_each(it, json_get(spec, "resizePolicy"))
		if (str_eq(json_get_str(it.val, "restartPolicy"), "RestartContainer"))
			c->resize_restarts[str_eq(json_get_str(it.val, "resourceName"), "memory")] =
				true;
}

static void read_container(struct pod_container_view *c, const struct json *spec,
			   const struct json *pod_spec, struct arena *a)
{
	c->name = name_of(spec, "name");
	c->image = name_of(spec, "image");
	c->workdir = json_get_str(spec, "workingDir");
	c->never_pull = str_eq(json_get_str(spec, "imagePullPolicy"), "Never");
	c->always_pull = str_eq(json_get_str(spec, "imagePullPolicy"), "Always");
	c->message_path = json_get_str(spec, "terminationMessagePath");
	c->message_from_log =
		str_eq(json_get_str(spec, "terminationMessagePolicy"), "FallbackToLogsOnError");
	c->tty = json_get_bool(spec, "tty", false);
	c->stdin_open = json_get_bool(spec, "stdin", false);
	c->stdin_once = json_get_bool(spec, "stdinOnce", false);
	c->command = strings(a, json_get(spec, "command"));
	c->args = strings(a, json_get(spec, "args"));
	read_env(c, spec, a);
	read_ports(c, spec, a);
	read_mounts(c, spec, a);
	read_resources(c, spec, a);
	read_security(c, spec, json_get(pod_spec, "securityContext"), a);
	c->startup = probe_view(c, json_get(spec, "startupProbe"), a);
	c->readiness = probe_view(c, json_get(spec, "readinessProbe"), a);
	c->liveness = probe_view(c, json_get(spec, "livenessProbe"), a);
	c->post_start = hook_view(c, json_at_path(spec, "lifecycle.postStart"), a);
	c->pre_stop = hook_view(c, json_at_path(spec, "lifecycle.preStop"), a);
}

/* Statuses come in the order of the containers, so the first look almost always finds one. */
static struct pod_container_view *container_named(struct pod_container_view *list, size_t n,
						  size_t i, const char *name)
{
	if (i < n && str_eq(list[i].name, name))
		return &list[i];
	for (i = 0; i < n; i++)
		if (str_eq(list[i].name, name))
			return &list[i];
	return NULL;
}

static void read_status_starts(struct pod_container_view *list, size_t n,
			       const struct json *statuses)
{
	size_t i = 0;

	json_each(s, statuses) {
		const char *text = json_str(json_at_path(s.val, "state.running.startedAt"));
		struct pod_container_view *c =
			text ? container_named(list, n, i, json_get_str(s.val, "name")) : NULL;

		i++;
		if (c)
			err_free(clock_parse(text, &c->status_started));
	}
}

static void read_containers(struct pod_view *p, const struct object *o, struct arena *a)
{
	const struct json *spec = object_spec(o);
	const struct json *init = json_get(spec, "initContainers"),
			  *main = json_get(spec, "containers"),
			  *ephemeral = json_get(spec, "ephemeralContainers");
	size_t n = 0;

	p->n_init = json_len(init);
	p->n_ephemeral = json_len(ephemeral);
	p->n_containers = p->n_init + json_len(main) + p->n_ephemeral;
	p->containers = arena_new_n(a, struct pod_container_view, p->n_containers + 1);
	json_each(c, init) {
		p->containers[n].init = true;
		p->containers[n].sidecar = pod_is_sidecar(c.val);
		read_container(&p->containers[n++], c.val, spec, a);
	}
	json_each(c, main)
		read_container(&p->containers[n++], c.val, spec, a);
	json_each(c, ephemeral) {
		p->containers[n].ephemeral = true;
		p->containers[n].target = str_or(json_get_str(c.val, "targetContainerName"), NULL);
		read_container(&p->containers[n++], c.val, spec, a);
	}
	read_status_starts(p->containers, p->n_init,
			   json_get(object_status(o), "initContainerStatuses"));
	read_status_starts(p->containers + p->n_init, json_len(main),
			   json_get(object_status(o), "containerStatuses"));
	read_status_starts(p->containers + p->n_init + json_len(main), p->n_ephemeral,
			   json_get(object_status(o), "ephemeralContainerStatuses"));
}

static struct pod_volume_source volume_source(const struct json *v, enum pod_volume_type type,
					      struct arena *a)
{
	const struct json *items = json_get(v, "items");
	struct pod_volume_source s = { .type = type };

	s.object = json_get_str(v, json_get(v, "secretName") ? "secretName" : "name");
	s.optional = json_get_bool(v, "optional", false);
	if (type == POD_VOLUME_TOKEN) {
		s.path = name_of(v, "path");
		s.audience = json_get_str(v, "audience");
		s.expire_s = json_get_int(v, "expirationSeconds", POD_TOKEN_S);
	}
	s.items = arena_new_n(a, struct pod_volume_item, json_len(items) + 1);
	json_each(i, items)
		s.items[s.n_items++] = (struct pod_volume_item){
			.key = name_of(i.val, "key"),
			.field = field_ref(i.val),
			.path = name_of(i.val, "path"),
			.mode = json_get_int(i.val, "mode", -1),
		};
	return s;
}

static const struct {
	const char *member;
	enum pod_volume_type type;
} volume_types[] = {
	{ "emptyDir", POD_VOLUME_EMPTY_DIR },        { "persistentVolumeClaim", POD_VOLUME_PVC },
	{ "configMap", POD_VOLUME_CONFIG_MAP },      { "secret", POD_VOLUME_SECRET },
	{ "projected", POD_VOLUME_PROJECTED },       { "downwardAPI", POD_VOLUME_DOWNWARD },
	{ "hostPath", POD_VOLUME_HOST_PATH },        { "ephemeral", POD_VOLUME_PVC },
	{ "serviceAccountToken", POD_VOLUME_TOKEN },
};

static const struct json *source_of(const struct json *v, enum pod_volume_type *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(volume_types); i++) {
		const struct json *s = json_get(v, volume_types[i].member);

		*ret = volume_types[i].type;
		if (s)
			return s;
	}
	*ret = POD_VOLUME_OTHER;
	return NULL;
}

static void read_projected(struct pod_volume_view *p, const struct json *sources, struct arena *a)
{
	p->sources = arena_new_n(a, struct pod_volume_source, json_len(sources) + 1);
	json_each(s, sources) {
		enum pod_volume_type type;
		const struct json *v = source_of(s.val, &type);

		p->sources[p->n_sources++] = volume_source(v, type, a);
	}
}

static struct pod_volume_view volume_view(const struct json *v, const char *pod, struct arena *a)
{
	struct pod_volume_view p = { .name = name_of(v, "name") };
	const struct json *s = source_of(v, &p.type);

	p.mode = json_get_int(s, "defaultMode", POD_FILE_MODE);
	p.pvc = p.type == POD_VOLUME_PVC ? name_of(s, "claimName") : NULL;
	if (json_get(v, "ephemeral")) { /* its claim has a name of its own */
		p.claim = json_get(s, "volumeClaimTemplate");
		p.pvc = arena_printf(a, "%s-%s", pod, p.name);
	}
	p.readonly = p.type == POD_VOLUME_PVC && json_get_bool(s, "readOnly", false);
	if (p.type == POD_VOLUME_HOST_PATH) {
		p.host_path = json_get_str(s, "path");
		p.host_type = json_get_str(s, "type");
	}
	p.memory = str_eq(json_get_str(s, "medium"), "Memory");
	p.size = quantity(json_get(s, "sizeLimit"), 0) / 1000;
	if (p.type == POD_VOLUME_PROJECTED) {
		read_projected(&p, json_get(s, "sources"), a);
		return p;
	}
	p.sources = arena_new_of(a, struct pod_volume_source);
	*p.sources = volume_source(s, p.type, a);
	p.n_sources = 1;
	return p;
}

static void read_volumes(struct pod_view *p, const struct json *spec, struct arena *a)
{
	const struct json *volumes = json_get(spec, "volumes");

	p->volumes = arena_new_n(a, struct pod_volume_view, json_len(volumes) + 1);
	json_each(v, volumes)
		p->volumes[p->n_volumes++] = volume_view(v.val, p->name, a);
}

static void read_names(struct pod_view *p, const struct json *spec, struct arena *a)
{
	const struct json *aliases = json_get(spec, "hostAliases"),
			  *dns = json_get(spec, "dnsConfig"), *options = json_get(dns, "options");

	p->host_aliases = arena_new_n(a, struct pod_host_alias, json_len(aliases) + 1);
	json_each(v, aliases)
		p->host_aliases[p->n_host_aliases++] = (struct pod_host_alias){
			.ip = json_get_str(v.val, "ip"),
			.hostnames = strings(a, json_get(v.val, "hostnames")),
		};
	p->dns_policy = name_of(spec, "dnsPolicy");
	p->nameservers = strings(a, json_get(dns, "nameservers"));
	p->searches = strings(a, json_get(dns, "searches"));
	p->dns_options = arena_new_n(a, struct pod_dns_option, json_len(options) + 1);
	json_each(v, options)
		p->dns_options[p->n_dns_options++] = (struct pod_dns_option){
			.name = name_of(v.val, "name"),
			.value = json_get_str(v.val, "value"),
		};
}

static void read_groups(struct pod_view *p, const struct json *spec, struct arena *a)
{
	const struct json *s = json_get(spec, "securityContext");
	const struct json *more = json_get(s, "supplementalGroups");

	p->fs_group = json_get_int(s, "fsGroup", -1);
	p->fs_group_on_mismatch = str_eq(json_get_str(s, "fsGroupChangePolicy"), "OnRootMismatch");
	p->groups = arena_new_n(a, uint32_t, json_len(more) + 1);
	json_each(g, more)
		p->groups[p->n_groups++] = (uint32_t)json_int(g.val, 0);
}

static enum pod_restart restart_of(const char *policy)
{
	if (str_eq(policy, "Never"))
		return POD_RESTART_NEVER;
	return str_eq(policy, "OnFailure") ? POD_RESTART_ON_FAILURE : POD_RESTART_ALWAYS;
}

struct pod_view *pod_view_new(const struct object *o, struct arena *a)
{
	struct pod_view *p = arena_new_of(a, struct pod_view);
	const struct json *meta = json_get(o->root, "metadata"), *spec = object_spec(o);
	const struct json *status = object_status(o);

	p->ns = o->ns;
	p->name = o->name;
	p->uid = o->uid;
	p->labels = json_get(meta, "labels");
	p->annotations = json_get(meta, "annotations");
	p->node_name = name_of(spec, "nodeName");
	p->service_account = name_of(spec, "serviceAccountName");
	p->hostname = str_or(json_get_str(spec, "hostname"), o->name);
	p->subdomain = name_of(spec, "subdomain");
	p->runtime_class = name_of(spec, "runtimeClassName");
	p->runtime = json_get_str(p->annotations, "cay.dev/runtime");
	p->default_container = pod_default_container(o->root);
	p->qos = pod_qos(spec);
	p->phase = name_of(status, "phase");
	p->deleting = object_deleting(o);
	p->ready = conditions_true(json_get(status, "conditions"), "Ready");
	p->restart = restart_of(json_get_str(spec, "restartPolicy"));
	p->priority = json_get_int(spec, "priority", 0);
	p->grace_s = json_get_int(meta, "deletionGracePeriodSeconds",
				  json_get_int(spec, "terminationGracePeriodSeconds", POD_GRACE_S));
	p->grace_s = between(p->grace_s, 0, INT32_MAX);
	p->deadline_s = between(json_get_int(spec, "activeDeadlineSeconds", 0), 0, INT32_MAX);
	read_groups(p, spec, a);
	read_names(p, spec, a);
	read_volumes(p, spec, a);
	read_containers(p, o, a);
	return p;
}

bool pod_view_critical(const struct pod_view *p)
{
	return p->priority >= POD_CRITICAL_PRIORITY;
}

bool pod_quantity_find(const struct pod_quantity_view *list, size_t n, const char *name,
		       int64_t *ret)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(list[i].name, name)) {
			*ret = list[i].milli;
			return true;
		}
	return false;
}

int64_t pod_container_quantity(const struct pod_container_view *c, const char *what)
{
	int64_t v = 0;

	if (str_starts(what, "limits."))
		(void)pod_quantity_find(c->limits, c->n_limits, what + strlen("limits."), &v);
	else if (str_starts(what, "requests."))
		(void)pod_quantity_find(c->requests, c->n_requests, what + strlen("requests."), &v);
	return v;
}

bool pod_view_over(const struct pod_view *p)
{
	return pod_phase_over(p->phase);
}

const struct pod_container_view *pod_view_container(const struct pod_view *p, const char *name)
{
	for (size_t i = 0; i < p->n_containers; i++)
		if (str_eq(p->containers[i].name, name))
			return &p->containers[i];
	return NULL;
}

const struct pod_container_view *pod_view_default_container(const struct pod_view *p)
{
	return pod_view_container(p, p->default_container);
}

const struct pod_volume_view *pod_view_volume(const struct pod_view *p, const char *name)
{
	for (size_t i = 0; i < p->n_volumes; i++)
		if (str_eq(p->volumes[i].name, name))
			return &p->volumes[i];
	return NULL;
}

unsigned pod_view_count_mounts(const struct pod_view *p, const char *volume)
{
	unsigned n = 0;

	for (size_t i = 0; i < p->n_containers; i++)
		for (size_t k = 0; k < p->containers[i].n_mounts; k++)
			n += str_eq(p->containers[i].mounts[k].volume, volume);
	return n;
}

bool pod_container_has_port(const struct pod_container_view *c, uint16_t port)
{
	for (size_t i = 0; i < c->n_ports; i++)
		if (c->ports[i].port == port && c->ports[i].tcp)
			return true;
	return false;
}
