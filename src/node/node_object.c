/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "api/meta.h"
#include "api/registry.h"
#include "base/log.h"
#include "base/platform.h"
#include "base/str.h"
#include "client/client.h"
#include "json/json.h"
#include "loop/loop.h"
#include "node/host/budget.h"
#include "node/node_object_priv.h"

enum {
	HEARTBEAT_MS = 5 * 60 * 1000,
	CONDITIONS_MAX = 8, /* beside Ready */
};

struct node_object {
	struct client *client;
	const struct kind *kind;
	char *name;
	struct host_budget budget;
	struct client_watch *watch;
	struct client_write write;
	struct timer *heartbeat;
	struct condition conditions[CONDITIONS_MAX];
	size_t n_conditions;
	bool shut_down;
};

/* What Pods may use is less than what the machine has. */
static void put_resources(struct json_doc *d, struct json *status, const char *key,
			  const struct host_budget *b, int64_t memory)
{
	struct json *o = json_need_obj(d, status, key);

	json_set(d, o, "cpu", json_new_strf(d, "%ld", sysconf(_SC_NPROCESSORS_ONLN)));
	json_set(d, o, "memory", json_new_strf(d, "%lldKi", (long long)memory / 1024));
	json_set(d, o, "pods", json_new_strf(d, "%lld", (long long)b->pods));
}

static void put_info(struct json_doc *d, struct json *status)
{
	struct json *info = json_need_obj(d, status, "nodeInfo");
	struct utsname u;

	if (uname(&u) < 0)
		return;
	json_set_str(d, info, "kernelVersion", u.release);
	json_set_str(d, info, "architecture", PLATFORM_ARCH);
	json_set_str(d, info, "operatingSystem", "linux");
	json_set_str(d, info, "osImage", "Linux");
	json_set_str(d, info, "containerRuntimeVersion", "cay://" CAY_VERSION);
	json_set_str(d, info, "kubeletVersion", "v1.34.0+cay" CAY_VERSION);
	json_set_str(d, info, "kubeProxyVersion", "");
	json_set_str(d, info, "machineID", "");
	json_set_str(d, info, "systemUUID", "");
	json_set_str(d, info, "bootID", "");
}

static void put_address(struct json_doc *d, struct json *list, const char *type, const char *text)
{
	struct json *a = json_obj(d);

	json_set_str(d, a, "type", type);
	json_set_str(d, a, "address", text);
	json_push(d, list, a);
}

static void put_conditions(const struct node_object *n, struct json_doc *d, struct json *status,
			   const struct json *was)
{
	struct json *list =
		json_set(d, status, "conditions", was ? json_copy(d, was) : json_arr(d));
	const struct condition ready = { .type = "Ready",
					 .status = "True",
					 .reason = "NodeReady",
					 .message = "cay is ready to run sandboxes" };
	const struct condition ends = { .type = "Ready",
					.status = "False",
					.reason = "KubeletNotReady",
					.message = "node is shutting down" };
	char now[CLOCK_TEXT_MAX];

	clock_format(clock_wall(), now);
	conditions_upsert(d, list, n->shut_down ? &ends : &ready, clock_wall());
	for (size_t i = 0; i < n->n_conditions; i++)
		conditions_upsert(d, list, &n->conditions[i], clock_wall());
	json_each(c, list)
		json_set_str(d, c.val, "lastHeartbeatTime", now);
}

static void on_written(unused struct client_write *w, struct err *e, unused struct object *obj)
{
	if (e)
		log_warn("cannot write the Node object, the next heartbeat tries again",
			 KV("err", e));
	err_free(e);
}

static void write_status(struct node_object *n, const struct object *o)
{
	struct json_doc *d = json_doc_new();
	struct json *root = json_obj(d), *status = json_need_obj(d, root, "status"), *list;

	json_set_root(d, root);
	put_resources(d, status, "capacity", &n->budget, n->budget.memory_capacity);
	put_resources(d, status, "allocatable", &n->budget, n->budget.memory);
	put_info(d, status);
	list = json_need_arr(d, status, "addresses");
	put_address(d, list, "InternalIP", "127.0.0.1");
	put_address(d, list, "Hostname", n->name);
	put_conditions(n, d, status, o ? json_get(object_status(o), "conditions") : NULL);
	n->write.done = on_written;
	client_patch(n->client,
		     &(struct client_ref){ .kind = n->kind, .name = n->name, .sub = "status" },
		     PATCH_MERGE, d, &n->write);
}

static void on_created(struct client_write *w, struct err *e, unused struct object *obj)
{
	struct node_object *n = container_of(w, struct node_object, write);

	if (e && !err_is(e, ERR_EXISTS)) {
		on_written(w, e, NULL);
		return;
	}
	err_free(e);
	write_status(n, NULL);
}

static void create(struct node_object *n)
{
	struct json_doc *d = json_doc_new();
	struct json *o = json_obj(d), *meta = json_need_obj(d, o, "metadata");
	struct json *labels = json_need_obj(d, meta, "labels");

	json_set_root(d, o);
	json_set_str(d, o, "apiVersion", "v1");
	json_set_str(d, o, "kind", "Node");
	json_set_str(d, meta, "name", n->name);
	json_set_str(d, labels, "kubernetes.io/hostname", n->name);
	json_set_str(d, labels, "kubernetes.io/os", "linux");
	n->write.done = on_created;
	client_create(n->client, &(struct client_ref){ .kind = n->kind }, d, &n->write);
}

static void on_heartbeat(void *arg)
{
	struct node_object *n = arg;
	autoptr(object) o = client_get(n->client, n->kind, NULL, n->name);

	timer_set(n->heartbeat, HEARTBEAT_MS);
	client_cancel(&n->write);
	if (o)
		write_status(n, o);
	else
		create(n);
}

static void condition_done(struct condition *c)
{
	free((char *)(uintptr_t)c->type);
	free((char *)(uintptr_t)c->status);
	free((char *)(uintptr_t)c->reason);
	free((char *)(uintptr_t)c->message);
}

void node_object_condition(struct node_object *n, const struct condition *c)
{
	size_t i = 0;

	while (i < n->n_conditions && !str_eq(n->conditions[i].type, c->type))
		i++;
	if (i < n->n_conditions)
		condition_done(&n->conditions[i]);
	else
		n->n_conditions++;
	assert(n->n_conditions <= CONDITIONS_MAX);
	n->conditions[i] = (struct condition){ .type = xstrdup(c->type),
					       .status = xstrdup(c->status),
					       .reason = xstrdup(c->reason),
					       .message = xstrdup(c->message) };
	timer_set(n->heartbeat, 0);
}

void node_object_shut_down(struct node_object *n)
{
	n->shut_down = true;
	on_heartbeat(n); /* at once: there may be no later turn */
}

static void node_changed(unused void *arg, unused struct object *was, unused struct object *now)
{
}

struct node_object *node_object_new(struct loop *l, struct client *c, const char *name,
				    const struct host_budget *b)
{
	static const struct client_watch_events events = { .changed = node_changed };
	struct node_object *n = xnew(struct node_object);
	struct client_watch_spec spec = { 0 };

	n->client = c;
	n->kind = kinds_need(client_kinds(c), "v1", "Node");
	n->name = xstrdup(name);
	n->budget = *b;
	spec.kind = n->kind;
	n->watch = client_watch(c, &spec, &events, n);
	n->heartbeat = timer_new(l, on_heartbeat, n);
	on_heartbeat(n); /* at once: whoever finds the server ready finds its Node */
	return n;
}

void node_object_free(struct node_object *n)
{
	if (!n)
		return;
	client_cancel(&n->write);
	client_watch_free(n->watch);
	timer_free(n->heartbeat);
	for (size_t i = 0; i < n->n_conditions; i++)
		condition_done(&n->conditions[i]);
	free(n->name);
	free(n);
}
