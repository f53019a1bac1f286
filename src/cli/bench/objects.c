/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads and writes of plain objects, ConfigMaps: what the API costs apart from sandboxes, on this
 * server or on any other that speaks it.
 */
#include "base/mem.h"
#include "cli/bench/bench_priv.h"
#include "cli/cli.h"
#include "loop/loop.h"

enum {
	WRITE_ROUNDS = 10, /* times --runs: one create is short */
	FILLERS = 16,      /* clients that make the objects to be listed */
	LISTS = 20,
};

#define TABLE "application/json;as=Table;v=v1;g=meta.k8s.io"

static char *collection(struct bench *b, const struct requests *r unused, size_t i unused)
{
	return xasprintf("/api/v1/namespaces/%s/configmaps", b->ns);
}

static char *one_of_them(struct bench *b, const struct requests *r, size_t i)
{
	return xasprintf("/api/v1/namespaces/%s/configmaps/%s-%zu", b->ns, r->prefix, i % r->n);
}

static char *new_object(struct bench *b unused, const struct requests *r, size_t i)
{
	return xasprintf(
		"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"%s-%zu\","
		"\"labels\":{\"app\":\"bench\"}},\"data\":{\"key\":\"value %zu\"}}",
		r->prefix, i, i);
}

/* Removes them; the server may take its time for that. */
static struct err *remove_all(struct bench *b)
{
	autofree char *path = collection(b, NULL, 0);

	return world_ask(b, &(struct ask){ .method = "DELETE", .path = path }, NULL);
}

static struct err *writes_by(struct bench *b, unsigned clients)
{
	autofree char *prefix = xasprintf("write%u", clients);
	autofree char *name = xasprintf("create clients=%u", clients);
	struct requests r = { .method = "POST",
			      .prefix = prefix,
			      .clients = clients,
			      .n = (size_t)settings_int(b->settings, "runs") * WRITE_ROUNDS,
			      .path = collection,
			      .body = new_object };
	struct row *row =
		bench_row(b, "writes", name, "tls+fdatasync",
			  "each client creates a ConfigMap, and the next when it is answered");
	struct err *e = requests_run(b, &r, row);

	return e ? e : remove_all(b);
}

struct err *scenario_writes(struct bench *b)
{
	unsigned clients[LIST_MAX];
	size_t n = 0;
	struct err *e = bench_list(b, "api-clients", clients, LIST_MAX, &n);

	for (size_t i = 0; !e && i < n; i++)
		e = writes_by(b, clients[i]);
	return e;
}

/* Lists */

static struct err *lists_as(struct bench *b, const char *name, const char *accept)
{
	struct requests r = {
		.method = "GET", .accept = accept, .clients = 1, .n = LISTS, .path = collection
	};
	struct row *row = bench_row(b, "lists", name, NULL, "a list of all of them, in one answer");

	row_figure(row, "objects", (double)settings_int(b->settings, "objects"));
	return requests_run(b, &r, row);
}

/* Somebody who lists everything again and again. */
struct lister {
	struct lane lane;
	struct call call;
	char *path;
	size_t n;
};

static void list_again(struct lister *l)
{
	call_start(&l->call, &l->lane, &(struct ask){ .method = "GET", .path = l->path });
}

static void on_listed(struct call *call)
{
	struct lister *l = container_of(call, struct lister, call);

	l->n++;
	if (call_ok(call))
		list_again(l);
}

static struct err *reads(struct bench *b, const char *name, const char *what, struct row **ret)
{
	struct requests r = { .method = "GET",
			      .prefix = "list",
			      .clients = 1,
			      .n = MIN((size_t)settings_int(b->settings, "runs"),
				       (size_t)settings_int(b->settings, "objects")),
			      .path = one_of_them };
	struct row *row = bench_row(b, "lists", name, "tls", what);

	*ret = row;
	return requests_run(b, &r, row);
}

static struct err *gets_beside_lists(struct bench *b)
{
	struct lister l = { .call = { .done = on_listed } };
	struct row *row = NULL;
	struct err *e = reads(b, "get", "one object, by one client", &row);

	if (e)
		return e;
	l.path = collection(b, NULL, 0);
	lane_init(&l.lane, &b->api);
	list_again(&l);
	e = reads(b, "get beside lists", "one object, while another client lists all of them",
		  &row);
	row_figure(row, "lists", (double)l.n);
	if (!e && l.call.over && !call_ok(&l.call))
		e = err_wrap(call_error(&l.call), "list");
	call_done(&l.call);
	lane_done(&l.lane);
	free(l.path);
	return e;
}

struct err *scenario_lists(struct bench *b)
{
	struct requests fill = { .method = "POST",
				 .prefix = "list",
				 .clients = FILLERS,
				 .n = (size_t)settings_int(b->settings, "objects"),
				 .path = collection,
				 .body = new_object };
	struct row *row = bench_row(b, "lists", "fill", NULL, "creates what is listed");
	struct err *e = requests_run(b, &fill, row);

	if (!e)
		e = lists_as(b, "list", "application/json");
	if (!e)
		e = lists_as(b, "list as Table", TABLE);
	if (!e)
		e = gets_beside_lists(b);
	return e ? e : remove_all(b);
}
