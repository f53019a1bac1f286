/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "api/agents.h"
#include "api/meta.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "kinds.h"
#include "loop/loop.h"
#include "node/disk/disk.h"
#include "node/hold/hold.h"
#include "node/image/image.h"
#include "node/pod/probe_priv.h"
#include "server/server.h"
#include "store/store.h"

/* Images */

static struct err *find_image(void *arg, const char *name, struct image **ret)
{
	struct rig *r = arg;

	r->n_finds++;
	if (r->no_image || !str_eq(name, "img"))
		return err_new(ERR_NOT_FOUND, "no image named %s", name);
	*ret = xnew(struct image);
	(*ret)->id = xstrdup("img");
	(*ret)->digest = xstrdup("sha256:00");
	(*ret)->layers = xnew_n(char *, 2);
	(*ret)->layers[0] = xstrdup("/nowhere");
	(*ret)->pulled = !r->local_image;
	return NULL;
}

static void pull_image(void *arg, const char *name unused, const char *auth,
		       struct image_pull_wait *w)
{
	struct rig *r = arg;

	r->n_pulls++;
	r->pull = w;
	(void)snprintf(r->pull_auth, sizeof(r->pull_auth), "%s", str_or(auth, ""));
}

void pull_end(struct rig *r, const char *why)
{
	struct err *e = why ? err_new(ERR_UNAVAILABLE, "%s", why) : NULL;
	struct image_pull_wait *w = take(r->pull);

	is_true(w != NULL);
	r->no_image = why != NULL;
	if (!why)
		pods_images_changed(r->pods);
	w->done(w, e);
	err_free(e);
	turn(r);
}

/* Probes */

enum {
	TRIES_MAX = 8,
};

static struct fake_try {
	unsigned n;
	struct probe *probe; /* of the try that is under way */
} tries[TRIES_MAX];          /* by port */

static struct fake_try *try_of(uint16_t port)
{
	is_true(port < TRIES_MAX);
	return &tries[port % TRIES_MAX];
}

static void *try_start(struct probe *p)
{
	struct fake_try *t = try_of(probe_rule(p)->port);

	is_true(!t->probe);
	t->n++;
	t->probe = p;
	return t;
}

static void try_stop(void *arg)
{
	((struct fake_try *)arg)->probe = NULL;
}

unsigned tries_of(uint16_t port)
{
	return try_of(port)->n;
}

void answer(uint16_t port, bool good)
{
	struct fake_try *t = try_of(port);

	is_true(t->probe != NULL);
	probe_tried(t->probe, good, "the test says so");
}

/* The rig */

static void holds_changed(unused void *arg)
{
}

static void knocked(unused void *arg, unused const char *ns, unused const char *sandbox)
{
	is_true(!"nobody sends packets here");
}

static void start_holds(struct rig *r)
{
	const struct holds_spec spec = { .loop = r->loop,
					 .client = r->theirs,
					 .runtime = &r->rt.rt,
					 .instance = &r->inst,
					 .node_name = "test",
					 .max = r->max_holds,
					 .changed = holds_changed,
					 .knocked = knocked };

	map_free(r->rt.reserved); /* as a runtime that begins anew */
	r->rt.reserved = map_new(NULL);
	r->holds = holds_open(&spec);
	holds_start(r->holds);
}

void rig_start(struct rig *r)
{
	static const struct probe_ops fake_tries = { .start = try_start, .stop = try_stop };
	struct pods_spec spec = {
		.loop = r->loop,
		.runtime = &r->rt.rt,
		.find_image = find_image,
		.images = r,
		.pull_image = r->pulls ? pull_image : NULL,
		.pulls = r,
		.node_name = "test",
		.disk = r->disk,
		.run_dir = r->run_dir,
		.data_dir = r->data_dir,
		.tries = r->real_tries ? NULL : &fake_tries,
		.budget = { .pods = r->max_pods,
			    .memory = r->max_memory,
			    .containers = r->max_containers,
			    .overcommit = 1 },
	};

	r->theirs = proxy_client(&r->proxy, server_client(r->server, "system:node:test"));
	start_holds(r);
	spec.client = r->theirs;
	spec.holds = r->holds;
	works(pods_open(&spec, &r->pods));
	pods_start(r->pods);
	turn(r);
}

void rig_stop(struct rig *r)
{
	pods_free(take(r->pods));
	holds_free(take(r->holds));
	client_free(take(r->theirs));
}

void rig_restart(struct rig *r)
{
	rig_stop(r);
	rig_start(r);
}

void rig_open(struct rig *r)
{
	struct server_spec spec = { .kinds = test_kinds(),
				    .listen = "127.0.0.1:0",
				    .node_name = "test" };
	char node_dir[96];

	memset(tries, 0, sizeof(tries));
	*r = (struct rig){ 0 };
	fake_runtime_init(&r->rt);
	/* In memory, as volumes are on a host: a disk may be too full for new versions of them. */
	(void)snprintf(r->dir, sizeof(r->dir), "%s/cay-node-XXXXXX",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	is_true(mkdtemp(r->dir));
	(void)snprintf(r->data_dir, sizeof(r->data_dir), "%s/data", r->dir);
	(void)snprintf(r->run_dir, sizeof(r->run_dir), "%s/run", r->dir);
	is_true(!mkdir(r->data_dir, 0700) && !mkdir(r->run_dir, 0700));
	(void)snprintf(node_dir, sizeof(node_dir), "%s/node", r->data_dir);
	is_true(!mkdir(node_dir, 0700));
	r->inst = (struct instance){ .id = "abcde", .pool = 0x0a08f000, .data_dir = r->data_dir };
	spec.data_dir = r->data_dir;
	r->disk = diskpool_open_plain(r->data_dir);
	works(loop_new(&r->loop));
	works(server_open(r->loop, &spec, &r->server));
	r->client = server_client(r->server, "system:admin");
	rig_start(r);
}

void rig_done(struct rig *r)
{
	rig_stop(r);
	client_free(r->client);
	server_free(r->server);
	while (loop_turn(r->loop, 0))
		;
	loop_free(r->loop);
	fake_runtime_done(&r->rt);
	diskpool_free(r->disk);
	works(file_remove_tree(AT_FDCWD, r->dir));
}

void turn(struct rig *r)
{
	for (int i = 0; i < 3; i++)
		(void)loop_turn(r->loop, 0);
}

void wait_a_bit(struct rig *r)
{
	(void)loop_turn(r->loop, 10);
}

void step(struct rig *r, uint64_t ms)
{
	pods_step(r->pods, ms);
	turn(r);
}

/* Objects */

struct json_doc *doc_of(const char *text)
{
	autofree char *json = xstrdup(text);
	struct json_doc *d = NULL;

	for (char *c = json; *c; c++)
		if (*c == '\'')
			*c = '"';
	works(json_parse(json, strlen(json), NULL, &d));
	return d;
}

struct ended {
	struct client_write w;
	bool ended;
};

static void must_work(struct client_write *w, struct err *e, unused struct object *obj)
{
	container_of(w, struct ended, w)->ended = true;
	works(e);
}

void create(struct rig *r, const struct kind *k, const char *text)
{
	struct ended end = { .w.done = must_work };
	const struct client_ref ref = { .kind = k, .ns = NS };

	client_create(r->client, &ref, doc_of(text), &end.w);
	is_true(end.ended);
	turn(r);
}

void pod_create(struct rig *r, const char *name, const char *spec)
{
	autofree char *text = xasprintf("{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s'},"
					"'spec':{%s}}",
					name, spec);

	create(r, kind_named("Pod"), text);
}

void pod_create_annotated(struct rig *r, const char *name, const char *annotations,
			  const char *spec)
{
	autofree char *text = xasprintf("{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s',"
					"'annotations':{%s}},'spec':{%s}}",
					name, annotations, spec);

	create(r, kind_named("Pod"), text);
}

void pod_create_ahead(struct rig *r, const char *name, const char *spec)
{
	autofree char *text = xasprintf("{'apiVersion':'v1','kind':'Pod','metadata':{'name':'%s',"
					"'labels':{'" KEY_POOL "':'x'}},'spec':{%s}}",
					name, spec);

	create(r, kind_named("Pod"), text);
}

void pod_delete(struct rig *r, const char *name, int64_t grace_s)
{
	struct ended end = { .w.done = must_work };
	const struct client_ref ref = { .kind = kind_named("Pod"), .ns = NS, .name = name };
	const struct client_delete_spec spec = { .grace_s = grace_s };

	client_delete(r->client, &ref, &spec, &end.w);
	is_true(end.ended);
	turn(r);
}

void pvc_delete(struct rig *r, const char *name)
{
	struct ended gone = { .w.done = must_work }, freed = { .w.done = must_work };
	const struct client_ref ref = { .kind = kind_named("PersistentVolumeClaim"),
					.ns = NS,
					.name = name };

	client_delete(r->client, &ref, NULL, &gone.w);
	client_patch(r->client, &ref, PATCH_MERGE, doc_of("{'metadata':{'finalizers':null}}"),
		     &freed.w);
	is_true(gone.ended && freed.ended);
	turn(r);
}

void patch_status(struct rig *r, const char *name, const char *text)
{
	struct ended end = { .w.done = must_work };
	const struct client_ref ref = {
		.kind = kind_named("Pod"), .ns = NS, .name = name, .sub = "status"
	};

	client_patch(r->client, &ref, PATCH_MERGE, doc_of(text), &end.w);
	is_true(end.ended);
	turn(r);
}

void pod_patch_part(struct rig *r, const char *name, const char *sub, const char *spec)
{
	struct ended end = { .w.done = must_work };
	const struct client_ref ref = {
		.kind = kind_named("Pod"), .ns = NS, .name = name, .sub = sub
	};
	autofree char *text = xasprintf("{'spec':{%s}}", spec);

	client_patch(r->client, &ref, PATCH_STRATEGIC, doc_of(text), &end.w);
	is_true(end.ended);
	turn(r);
}

void patch_sandbox(struct rig *r, const char *name, const char *text)
{
	struct ended end = { .w.done = must_work };
	const struct client_ref ref = { .kind = kind_named("Sandbox"), .ns = NS, .name = name };

	client_patch(r->client, &ref, PATCH_MERGE, doc_of(text), &end.w);
	is_true(end.ended);
	turn(r);
}

void patch_config_map(struct rig *r, const char *name, const char *text)
{
	struct ended end = { .w.done = must_work };
	const struct client_ref ref = { .kind = kind_named("ConfigMap"), .ns = NS, .name = name };

	client_patch(r->client, &ref, PATCH_MERGE, doc_of(text), &end.w);
	is_true(end.ended);
	turn(r);
}

struct object *pod_get(struct rig *r, const char *name)
{
	return client_get(r->client, kind_named("Pod"), NS, name);
}

bool pod_there(struct rig *r, const char *name)
{
	autoptr(object) o = pod_get(r, name);

	return o != NULL;
}

uint64_t rev(struct rig *r)
{
	return store_rev(server_store(r->server));
}

static const char *keep(const struct json *v)
{
	static char text[4][256];
	static unsigned next;
	autofree char *json = json_str(v) ? NULL : v ? json_to_text(v) : xstrdup("");
	char *out = text[next++ % ARRAY_LEN(text)];

	(void)snprintf(out, sizeof(text[0]), "%s", json ? json : json_str(v));
	return out;
}

const char *told(struct rig *r, const char *name, const char *path)
{
	autoptr(object) o = pod_get(r, name);

	return keep(o ? json_at_path(object_status(o), path) : NULL);
}

const char *ready_of(struct rig *r, const char *name)
{
	autoptr(object) o = pod_get(r, name);
	const struct json *list = o ? json_get(object_status(o), "conditions") : NULL;

	return keep(json_get(conditions_get(list, "Ready"), "status"));
}

struct sought {
	const char *reason, *message; /* message NULL: any */
	size_t n;
};

static bool count_reason(void *arg, struct object *o)
{
	struct sought *s = arg;

	s->n += str_eq(json_get_str(o->root, "reason"), s->reason) &&
		(!s->message || strstr(str_or(json_get_str(o->root, "message"), ""), s->message));
	return true;
}

static size_t count_sought(struct rig *r, const char *reason, const char *message)
{
	struct sought s = { reason, message, 0 };

	step(r, 1); /* they are told a moment later */
	client_each(r->client, kind_storage(kind_named("Event")), NULL, count_reason, &s);
	return s.n;
}

size_t count_events(struct rig *r, const char *reason)
{
	return count_sought(r, reason, NULL);
}

bool event_says(struct rig *r, const char *reason, const char *message)
{
	return count_sought(r, reason, message) > 0;
}
