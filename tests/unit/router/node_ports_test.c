/* SPDX-License-Identifier: Apache-2.0 */
#include "router/node_ports/node_ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/kind.h"
#include "api/object.h"
#include "api/service.h"
#include "audit/audit.h"
#include "base/file.h"
#include "base/random.h"
#include "client/client.h"
#include "kinds.h"
#include "net/stream.h"
#include "rig.h"

/* Node ports over a small client of the test's own; Pods are sockets on 127.0.0.2. */
struct town {
	struct loop *l;
	struct map *objects; /* "Kind/namespace/name" → struct object, owned */
	struct map *told;    /* name of a Service → how many Events, as a pointer */
	const struct client_watch_events *ev;
	void *arg;
	struct client *client;
	struct node_ports *ports;
	struct audit *audit;
	char log[32];
};

static struct object *town_get(void *ctx, const struct kind *k, const char *ns, const char *name)
{
	autofree char *key = xasprintf("%s/%s/%s", k->kind, ns, name);

	return object_ref(map_get(((struct town *)ctx)->objects, key));
}

static void town_each(void *ctx, const struct kind *k, const char *ns,
		      bool (*fn)(void *arg, struct object *o), void *arg)
{
	map_each(it, ((struct town *)ctx)->objects) {
		struct object *o = it.value;

		if (o->kind == k && (!ns || str_eq(o->ns, ns)) && !fn(arg, o))
			break;
	}
}

static void *town_watch(void *ctx, const struct client_watch_spec *spec,
			const struct client_watch_events *ev, void *arg)
{
	struct town *t = ctx;

	if (str_eq(spec->kind->kind, "Service")) {
		t->ev = ev;
		t->arg = arg;
	}
	return t;
}

static void town_watch_free(unused void *ctx, unused void *watch)
{
}

static uintptr_t n_told(const struct town *t, const char *service)
{
	return (uintptr_t)map_get(t->told, service);
}

static void town_create(void *ctx, const struct client_ref *to, struct json_doc *d,
			unused struct client_write *w)
{
	struct town *t = ctx;
	const char *about = json_str(json_at_path(json_root(d), "involvedObject.name"));

	eq_str(to->kind->kind, "Event");
	map_put(t->told, about,
		(void *)(n_told(t, about) + 1)); /* NOLINT(performance-no-int-to-ptr) */
	json_doc_free(d);
}

static void unref(void *o)
{
	object_unref(o);
}

static void town_start(struct town *t, const struct node_ports_spec *spec)
{
	static const struct client_ops ops = {
		.get = town_get,
		.each = town_each,
		.watch = town_watch,
		.watch_free = town_watch_free,
		.create = town_create,
	};

	struct node_ports_spec with = *spec;
	int fd;

	*t = (struct town){ .objects = map_new(unref), .told = map_new(NULL) };
	works(loop_new(&t->l));
	(void)snprintf(t->log, sizeof(t->log), "/tmp/cay-node-ports-XXXXXX");
	fd = mkstemp(t->log);
	is_true(fd >= 0);
	(void)close(fd);
	works(audit_open(t->l, &(struct audit_spec){ .path = t->log, .max_bytes = 1 << 20 },
			 &t->audit));
	with.audit = t->audit;
	t->client = client_new(&ops, t, test_kinds());
	works(node_ports_start(t->l, t->client, &with, &t->ports));
}

/* Returns what was recorded; malloc'd. */
static char *town_end(struct town *t)
{
	autofree char *head = xasprintf("%s.head", t->log);
	char *text = NULL;

	node_ports_free(t->ports);
	audit_free(t->audit);
	works(file_read(AT_FDCWD, t->log, 1 << 20, &text, NULL));
	(void)unlink(t->log);
	(void)unlink(head);
	client_free(t->client);
	map_free(t->objects);
	map_free(t->told);
	for (int i = 0; i < 10; i++)
		loop_turn(t->l, 1);
	loop_free(t->l);
	return text;
}

static void town_stop(struct town *t)
{
	free(town_end(t));
}

static void put(struct town *t, const char *kind, const char *ns, const char *name, char *json)
{
	autofree char *key = xasprintf("%s/%s/%s", kind, ns, name);
	autofree char *text = json;
	struct json_doc *d = NULL;
	struct json *meta;
	struct object *o;

	works(json_parse(text, strlen(text), NULL, &d));
	meta = json_need_obj(d, json_root(d), "metadata");
	json_set_str(d, meta, "name", name);
	json_set_str(d, meta, "namespace", ns);
	json_set(d, meta, "uid", json_new_strf(d, "%s-%s", ns, name));
	json_set_str(d, meta, "resourceVersion", "1");
	o = object_new(kind_named(kind), d);
	map_put(t->objects, key, o);
	if (str_eq(kind, "Service"))
		t->ev->changed(t->arg, NULL, o);
}

static void drop_service(struct town *t, const char *ns, const char *name)
{
	autofree char *key = xasprintf("Service/%s/%s", ns, name);
	autoptr(object) was = map_take(t->objects, key);

	t->ev->changed(t->arg, was, NULL);
}

/* One that nobody listens at, and none twice. */
static unsigned free_port(void)
{
	static unsigned next;

	if (!next)
		next = (unsigned)(random_u64() % 2000);
	for (;;) {
		autofree char *addr = xasprintf("127.0.0.1:%u", 30000 + next++ % 2768);
		struct err *e;
		int fd = -1;

		e = net_listen(addr, &fd);
		if (!e) {
			(void)close(fd);
			return (unsigned)strtoul(strchr(addr, ':') + 1, NULL, 10);
		}
		err_free(e);
	}
}

static unsigned put_service(struct town *t, const char *ns, const char *name)
{
	unsigned port = free_port();

	put(t, "Service", ns, name,
	    xasprintf(
		    "{\"spec\":{\"type\":\"NodePort\",\"ports\":[{\"port\":80,\"nodePort\":%u}]}}",
		    port));
	return port;
}

/* A Pod behind NS/web; what it listens with. */
static int put_pod(struct town *t, const char *ns)
{
	int fd = rig_listen("127.0.0.2:0");
	char addr[64];

	works(net_local_addr(fd, addr, sizeof(addr)));
	put(t, "Pod", ns, "pod", xstrdup("{\"status\":{\"podIPs\":[{\"ip\":\"127.0.0.2\"}]}}"));
	put(t, "EndpointSlice", ns, "slice",
	    xasprintf("{\"metadata\":{\"labels\":{\"kubernetes.io/service-name\":\"web\"}},"
		      "\"endpoints\":[{\"addresses\":[\"127.0.0.2\"],\"targetRef\":"
		      "{\"kind\":\"Pod\",\"name\":\"pod\"}}],\"ports\":[{\"port\":%s}]}",
		      strrchr(addr, ':') + 1));
	return fd;
}

static int visit(unsigned port)
{
	autofree char *addr = xasprintf("127.0.0.1:%u", port);
	int fd;

	works(net_connect(addr, &fd));
	return fd;
}

static struct node_ports_stats stats(const struct town *t)
{
	struct node_ports_stats s;

	node_ports_stats(t->ports, &s);
	return s;
}

static void settle(struct town *t)
{
	for (int i = 0; i < 20; i++)
		loop_turn(t->l, 1);
}

TEST(a_namespace_leaves_node_ports_to_others_and_each_service_without_one_is_told)
{
	static const char *const many[] = { "a", "b", "c", "d" };
	const char *served = NULL;
	struct town t;
	uintptr_t n = 0;

	town_start(&t, &(struct node_ports_spec){ .node_name = "here", .max_ports = 4 });
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		(void)put_service(&t, "many", many[i]);
	until(t.l, stats(&t).ports == 2);
	settle(&t);
	(void)put_service(&t, "few", "web");
	until(t.l, stats(&t).ports == 3);
	settle(&t);
	eq_int(n_told(&t, "web"), 0);
	for (size_t i = 0; i < ARRAY_LEN(many); i++) {
		n += n_told(&t, many[i]);
		is_true(n_told(&t, many[i]) <= 1);
		if (!n_told(&t, many[i]))
			served = many[i];
	}
	eq_int(n, 2);

	drop_service(&t, "many", served); /* another one takes its place */
	settle(&t);
	until(t.l, stats(&t).ports == 3);
	town_stop(&t);
}

TEST(a_namespace_leaves_connections_to_others_and_those_of_clients_that_left_end)
{
	struct node_ports_spec spec = { .node_name = "here", .max_conns = 4, .half_open_ms = 20 };
	struct town t;
	unsigned greedy, other;
	int pods[2], clients[3], fd, in;

	town_start(&t, &spec);
	pods[0] = put_pod(&t, "greedy");
	pods[1] = put_pod(&t, "other");
	greedy = put_service(&t, "greedy", "web");
	other = put_service(&t, "other", "web");
	until(t.l, stats(&t).ports == 2);
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		clients[i] = visit(greedy);
	until(t.l, stats(&t).conns == 2);
	settle(&t);
	eq_int(stats(&t).conns, 2);

	fd = visit(other);
	until(t.l, (in = accept4(pods[1], NULL, NULL, SOCK_CLOEXEC)) >= 0);
	eq_int(stats(&t).conns, 3);
	for (size_t i = 0; i < ARRAY_LEN(clients); i++)
		(void)close(clients[i]); /* the Pod never does */
	until(t.l, stats(&t).accepted == 4 && stats(&t).conns == 1);
	(void)close(fd);
	(void)close(in);
	(void)close(pods[0]);
	(void)close(pods[1]);
	town_stop(&t);
}

TEST(a_pod_that_does_not_take_its_connections_is_given_up)
{
	struct node_ports_spec spec = { .node_name = "here", .connect_ms = 50 };
	struct sockaddr_in to;
	socklen_t len = sizeof(to);
	struct town t;
	unsigned port;
	int pod, crowd[4], fd;
	char c;

	town_start(&t, &spec);
	pod = put_pod(&t, "default");
	eq_int(listen(pod, 0), 0);
	eq_int(getsockname(pod, (struct sockaddr *)&to, &len), 0);
	for (size_t i = 0; i < ARRAY_LEN(crowd); i++) {
		crowd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		is_true(!connect(crowd[i], (struct sockaddr *)&to, len) || errno == EINPROGRESS);
	}
	port = put_service(&t, "default", "web");
	until(t.l, stats(&t).ports == 1);
	fd = visit(port);
	until(t.l, stats(&t).accepted == 1);
	until(t.l, stats(&t).refused == 1);
	eq_int(stats(&t).conns, 0);
	until(t.l, recv(fd, &c, 1, MSG_DONTWAIT) == 0);
	(void)close(fd);
	for (size_t i = 0; i < ARRAY_LEN(crowd); i++)
		(void)close(crowd[i]);
	(void)close(pod);
	town_stop(&t);
}

/* The first line begins the file. */
static size_t n_records(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n - 1;
}

TEST(a_connection_is_recorded_when_it_ends)
{
	autofree char *text = NULL,
		      *who = xasprintf("\"user\":\"uid %u of this machine\"", getuid());
	autofree char *number = NULL;
	struct town t;
	unsigned port;
	char got[16];
	int pod, fd, in;

	town_start(&t, &(struct node_ports_spec){ .node_name = "here" });
	pod = put_pod(&t, "default");
	port = put_service(&t, "default", "web");
	number = xasprintf("\"port\":%u", port);
	until(t.l, stats(&t).ports == 1);
	fd = visit(port);
	until(t.l, (in = accept4(pod, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
	eq_int(send(fd, "hello", 5, 0), 5);
	until(t.l, recv(in, got, sizeof(got), 0) == 5);
	eq_int(send(in, "bye", 3, 0), 3);
	until(t.l, recv(fd, got, sizeof(got), MSG_DONTWAIT) == 3);
	(void)close(fd);
	(void)close(in);
	until(t.l, !stats(&t).conns);
	(void)close(pod);
	text = town_end(&t);
	eq_int(n_records(text), 1);
	is_true(strstr(text, who) && strstr(text, number));
	is_true(strstr(
		text, "\"verb\":\"connect\",\"resource\":\"services\",\"subresource\":\"nodeport\","
		      "\"namespace\":\"default\",\"name\":\"web\",\"pod\":\"pod\""));
	is_true(strstr(text, "\"from\":\"127.0.0.1:"));
	is_true(strstr(text, "\"received\":5,\"sent\":3"));
	is_false(strstr(text, "\"note\""));
}

TEST(a_connection_that_leads_nowhere_or_is_cut_is_recorded_with_the_reason)
{
	autofree char *text = NULL;
	struct town t;
	unsigned ports[2];
	int pod, none, fd, in;

	town_start(&t, &(struct node_ports_spec){ .node_name = "here" });
	pod = put_pod(&t, "default");
	ports[0] = put_service(&t, "default", "web");
	ports[1] = put_service(&t, "default", "empty");
	until(t.l, stats(&t).ports == 2);
	none = visit(ports[1]);
	until(t.l, stats(&t).refused == 1);
	fd = visit(ports[0]);
	until(t.l, (in = accept4(pod, NULL, NULL, SOCK_CLOEXEC)) >= 0);
	drop_service(&t, "default", "web");
	until(t.l, stats(&t).ports == 1);
	(void)close(none);
	(void)close(fd);
	(void)close(in);
	(void)close(pod);
	text = town_end(&t);
	eq_int(n_records(text), 2);
	is_true(strstr(text, "\"name\":\"empty\"") && strstr(text, "\"note\":\"no Pod is ready\""));
	is_true(strstr(text, "\"pod\":\"pod\"") &&
		strstr(text, "\"note\":\"the port was closed\""));
}

static bool nobody(unused void *arg, unused const struct router_caller *caller)
{
	return false;
}

TEST(callers_who_may_not_go_in_do_not_fill_the_log)
{
	autofree char *text = NULL;
	int pod, fds[8];
	struct town t;
	unsigned port;

	town_start(&t, &(struct node_ports_spec){ .node_name = "here", .enter = nobody });
	pod = put_pod(&t, "default");
	port = put_service(&t, "default", "web");
	until(t.l, stats(&t).ports == 1);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = visit(port);
	until(t.l, stats(&t).refused == ARRAY_LEN(fds));
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		(void)close(fds[i]);
	(void)close(pod);
	text = town_end(&t);
	is_true(strstr(text, "\"note\":\"forbidden\""));
	is_true(n_records(text) < ARRAY_LEN(fds));
	is_false(strstr(text, "\"pod\""));
}
