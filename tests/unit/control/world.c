/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "kinds.h"
#include "loop/loop.h"
#include "server/server.h"
#include "store/store.h"

void world_start(struct world *w, const struct control_options *o)
{
	struct control_options all = o ? *o : (struct control_options){ 0 };

	all.cluster_services = true;
	all.turn_ms = 60 * 1000; /* what is to happen in one turn does, on a slow machine too */
	w->theirs = server_client(w->server, "system:cay:controller");
	works(control_start(w->loop, w->theirs, &all, &w->control));
	is_true(control_synced(w->control));
	control_hold_time(w->control); /* what a slow machine takes for a test is no time in it */
	turn(w);
}

void world_stop(struct world *w)
{
	control_free(take(w->control));
	client_free(take(w->theirs));
}

void world_open(struct world *w, const struct control_options *o)
{
	struct server_spec spec = { .kinds = test_kinds(), .listen = "127.0.0.1:0" };

	*w = (struct world){ 0 };
	(void)snprintf(w->dir, sizeof(w->dir), "/tmp/cay-control-XXXXXX");
	is_true(mkdtemp(w->dir));
	spec.data_dir = w->dir;
	works(loop_new(&w->loop));
	works(server_open(w->loop, &spec, &w->server));
	w->client = server_client(w->server, "system:admin");
	world_start(w, o);
}

void world_done(struct world *w)
{
	world_stop(w);
	for (int i = 0; i < 8; i++) /* writes that take their time still need the server */
		turn(w);
	client_free(w->client);
	server_free(w->server);
	while (loop_turn(w->loop, 0))
		;
	loop_free(w->loop);
	works(file_remove_tree(AT_FDCWD, w->dir));
}

static void sent(void *arg unused)
{
}

/* An Event follows what it tells of a moment later; whoever counts wants those that wait too. */
static void send_events(struct world *w)
{
	control_finish(w->control, sent, NULL);
}

uint64_t world_rev(struct world *w)
{
	send_events(w);
	return store_rev(server_store(w->server));
}

void turn(struct world *w)
{
	(void)loop_turn(w->loop, 0);
}

void step(struct world *w, uint64_t ms)
{
	control_step(w->control, ms);
	for (int i = 0; i < 4; i++)
		turn(w);
}

struct ending {
	struct client_write write;
	bool ended;
};

static void must_work(struct client_write *w, struct err *e, struct object *obj unused)
{
	container_of(w, struct ending, write)->ended = true;
	works(e);
}

void create(struct world *w, const struct kind *k, const char *text)
{
	struct ending end = { .write.done = must_work };

	client_create(w->client, &(struct client_ref){ k, NS }, doc_of(text), &end.write);
	is_true(end.ended);
}

void patch(struct world *w, const struct kind *k, const char *name, const char *sub,
	   const char *text)
{
	struct ending end = { .write.done = must_work };

	client_patch(w->client, &(struct client_ref){ k, NS, name, sub }, PATCH_MERGE, doc_of(text),
		     &end.write);
	is_true(end.ended);
}

void delete_now(struct world *w, const struct kind *k, const char *name)
{
	const struct client_delete_spec spec = { .grace_s = 0 };
	struct ending end = { .write.done = must_work };

	client_delete(w->client, &(struct client_ref){ k, NS, name }, &spec, &end.write);
	is_true(end.ended);
}

struct object *get(struct world *w, const struct kind *k, const char *name)
{
	return client_get(w->client, k, NS, name);
}

static bool count_one(void *arg, struct object *o unused)
{
	(*(size_t *)arg)++;
	return true;
}

size_t count(struct world *w, const struct kind *k)
{
	size_t n = 0;

	client_each(w->client, k, NS, count_one, &n);
	return n;
}

const char *condition_of(struct world *w, const struct kind *k, const char *name, const char *type)
{
	autoptr(object) o = get(w, k, name);

	return o ? condition_text(object_status(o), type) : "none";
}

struct sought {
	const char *reason;
	size_t n;
};

static bool count_reason(void *arg, struct object *o)
{
	struct sought *s = arg;

	s->n += str_eq(json_get_str(o->root, "reason"), s->reason);
	return true;
}

size_t count_events(struct world *w, const char *reason)
{
	struct sought s = { reason };

	send_events(w);
	client_each(w->client, kind_storage(kind_named("events.k8s.io/v1 Event")), NULL,
		    count_reason, &s);
	return s.n;
}

static void status_running(struct world *w, const char *name)
{
	patch(w, kind_named("Pod"), name, "status",
	      "{'status':{'phase':'Running','podIP':'10.0.0.1','podIPs':[{'ip':'10.0.0.1'}],"
	      "'conditions':[{'type':'PodScheduled','status':'True'},{'type':'Ready','status':'True'}]}}");
}

void pod_runs(struct world *w, const char *name)
{
	status_running(w, name);
	turn(w);
}

struct names {
	char *v[512];
	size_t n;
};

static bool collect(void *arg, struct object *o)
{
	struct names *names = arg;

	if (!object_deleting(o) && !json_get(object_status(o), "podIPs") &&
	    names->n < ARRAY_LEN(names->v))
		names->v[names->n++] = xstrdup(o->name);
	return true;
}

void all_pods_run(struct world *w)
{
	struct names names = { 0 };

	client_each(w->client, kind_named("Pod"), NS, collect, &names);
	for (size_t i = 0; i < names.n; i++) {
		status_running(w, names.v[i]);
		free(names.v[i]);
	}
	turn(w);
}
