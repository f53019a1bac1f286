/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways into a sandbox, by a user and by an agent in turn: whatever else the machine does falls
 * on both alike, so their ratio is what being an agent costs. Besides the decision that is the
 * record of the entry, which is on disk before an agent's exec begins, and the agent's own seat in
 * the sandbox; the last door is the decision alone.
 */
#include <stdio.h>

#include "base/mem.h"
#include "base/str.h"
#include "cli/bench/doors_priv.h"
#include "cli/cli.h"
#include "loop/loop.h"
#include "net/websocket.h"

enum {
	ANSWER_MS = 60000,
	WARM_UP = 3, /* turns: the first makes the agent's seat */
	CHANNEL_ERROR = 3,
};

static const struct {
	const char *name, *floor, *what;
	bool router;
} doors[DOOR_MAX_] = {
	[DOOR_EXEC] = { "exec", "tls+exec",
			"/bin/true, pods/exec over a WebSocket on an open connection, to its status",
			false },
	[DOOR_EXECUTE] = { "execute", "exec", "/bin/true, POST /execute through the router", true },
	[DOOR_GET] = { "get", NULL, "GET / of the runtime port through the router", true },
	[DOOR_REVIEW] = { "review", "tls",
			  "a SelfSubjectAccessReview of the same exec: the decision alone", false },
};

/* An exec over the API */

struct entry {
	struct websocket_dial *dial;
	struct websocket *ws;
	struct err *e;
	bool ok, over;
};

static void entry_end(struct entry *n, struct err *e)
{
	if (n->over)
		err_free(e);
	else
		n->e = e;
	n->over = true;
}

/* The last thing on the error channel is a Status. */
static void on_message(void *arg, bool binary unused, const char *data, size_t len)
{
	struct entry *n = arg;
	autoptr(json_doc) status = NULL;
	struct err *e;

	if (len < 2 || data[0] != CHANNEL_ERROR)
		return;
	e = json_parse(data + 1, len - 1, NULL, &status);
	if (!e && !str_eq(json_get_str(json_root(status), "status"), "Success"))
		e = err_new(ERR_UNAVAILABLE, "the command failed: %s",
			    str_or(json_get_str(json_root(status), "message"), ""));
	n->ok = !e;
	entry_end(n, e);
}

static void on_closed(void *arg, uint16_t code)
{
	entry_end(arg,
		  err_new(ERR_UNAVAILABLE, "the connection was cut (WebSocket code %u)", code));
}

static void on_opened(void *arg, struct websocket *w, const char *protocol unused)
{
	static const struct websocket_events events = { .message = on_message,
							.closed = on_closed };
	struct entry *n = arg;

	n->dial = NULL;
	n->ws = w;
	websocket_set_events(w, &events, n);
}

static void on_refused(void *arg, int status, struct span body)
{
	struct entry *n = arg;

	n->dial = NULL;
	entry_end(n, err_new(ERR_FORBIDDEN, "status %d: %.*s", status, (int)body.len, body.p));
}

static void on_failed(void *arg, const struct err *e)
{
	struct entry *n = arg;

	n->dial = NULL;
	entry_end(n, err_copy(e));
}

static struct err *exec_once(struct bench *b, struct caller *w, const char *sandbox)
{
	static const struct websocket_dial_events events = { .opened = on_opened,
							     .refused = on_refused,
							     .failed = on_failed };
	autofree char *path = xasprintf(
		"/api/v1/namespaces/%s/pods/%s/exec?stdout=true&stderr=true&command=/bin/true",
		b->ns, sandbox);
	struct entry n = { 0 };
	struct err *e;

	n.dial = lane_dial(&w->to_api, path, &events, &n);
	e = bench_until(b, &n.over, ANSWER_MS);
	websocket_dial_cancel(n.dial);
	websocket_free(n.ws);
	if (!e)
		return n.e;
	err_free(n.e);
	return e;
}

/* Requests */

/* ret may be NULL. */
static struct err *ask_once(struct bench *b, struct lane *l, const struct ask *ask,
			    struct json_doc **ret)
{
	struct call c = { 0 };
	struct err *e;

	call_start(&c, l, ask);
	e = bench_until(b, &c.over, ANSWER_MS);
	if (!e && !call_ok(&c))
		e = call_error(&c);
	if (!e && ret)
		e = json_parse(buf_head(&c.body), c.body.len, NULL, ret);
	call_done(&c);
	return e;
}

static struct err *review_once(struct bench *b, struct caller *w, const char *sandbox)
{
	autofree char *body = xasprintf(
		"{\"apiVersion\":\"authorization.k8s.io/v1\",\"kind\":\"SelfSubjectAccessReview\","
		"\"spec\":{\"resourceAttributes\":{\"verb\":\"create\",\"resource\":\"pods\","
		"\"subresource\":\"exec\",\"namespace\":\"%s\",\"name\":\"%s\"}}}",
		b->ns, sandbox);
	autoptr(json_doc) answer = NULL;
	struct err *e = ask_once(
		b, &w->to_api,
		&(struct ask){ .method = "POST",
			       .path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			       .body = body },
		&answer);

	if (!e && !json_bool(json_at_path(json_root(answer), "status.allowed"), false))
		e = err_new(ERR_FORBIDDEN, "it may not exec");
	return e;
}

static struct err *enter(struct bench *b, struct caller *w, const char *sandbox, enum door d)
{
	switch (d) {
	case DOOR_EXEC:
		return exec_once(b, w, sandbox);
	case DOOR_EXECUTE:
		return ask_once(b, &w->to_router,
				&(struct ask){ .method = "POST",
					       .path = "/execute",
					       .body = "{\"command\":\"/bin/true\"}",
					       .sandbox = sandbox,
					       .ns = b->ns },
				NULL);
	case DOOR_GET:
		return ask_once(
			b, &w->to_router,
			&(struct ask){
				.method = "GET", .path = "/", .sandbox = sandbox, .ns = b->ns },
			NULL);
	case DOOR_REVIEW:
		return review_once(b, w, sandbox);
	case DOOR_MAX_:
		break;
	}
	return NULL;
}

/* Turns */

/* An exec takes the connection with it. */
static struct err *connect_anew(struct bench *b, struct caller *w, enum door d)
{
	if (d != DOOR_EXEC)
		return NULL;
	return err_wrap(
		ask_once(b, &w->to_api, &(struct ask){ .method = "GET", .path = "/version" }, NULL),
		"open a connection");
}

static struct err *one_turn(struct bench *b, struct side *s, const char *sandbox, enum door d,
			    bool counts)
{
	struct err *e = s->before ? s->before(s->arg) : NULL;
	double begin, loop;

	if (!e)
		e = connect_anew(b, s->who, d);
	if (e)
		return e;
	loop = host_loop_us(b);
	begin = (double)clock_mono();
	e = enter(b, s->who, sandbox, d);
	if (e)
		return err_wrap(e, "%s by the %s", doors[d].name, s->who->name);
	if (!counts)
		return NULL;
	samples_add(&s->row->us, (double)clock_mono() - begin);
	s->loop_us += host_loop_us(b) - loop;
	return NULL;
}

static void compare(struct side sides[2])
{
	struct row *one = sides[0].row, *other = sides[1].row;
	double was, is;

	for (int i = 0; i < 2; i++) {
		if (samples_quantile(&sides[i].row->us, 0.1, &is))
			row_figure(sides[i].row, "p10_us", is);
		if (sides[i].loop_us > 0)
			row_figure(sides[i].row, "loop_cpu_us",
				   sides[i].loop_us / (double)MAX(sides[i].row->us.n, 1u));
	}
	if (samples_quantile(&one->us, 0.1, &was) && samples_quantile(&other->us, 0.1, &is))
		row_figure(other, "p10_ratio", is / was);
	if (samples_quantile(&one->us, 0.5, &was) && samples_quantile(&other->us, 0.5, &is))
		row_figure(other, "p50_ratio", is / was);
	if (sides[0].loop_us > 0)
		row_figure(other, "loop_cpu_ratio", sides[1].loop_us / sides[0].loop_us);
}

struct err *doors_in_turn(struct bench *b, struct callers *c, const char *sandbox, enum door d,
			  struct side sides[2])
{
	size_t n = (size_t)settings_int(b->settings, "runs") + WARM_UP;
	struct err *e = NULL;

	/* Each is the first as often as the other. */
	for (size_t i = 0; !e && i < n; i++) {
		e = callers_renew(b, c);
		if (!e)
			e = one_turn(b, &sides[i % 2], sandbox, d, i >= WARM_UP);
		if (!e)
			e = one_turn(b, &sides[(i + 1) % 2], sandbox, d, i >= WARM_UP);
		bench_say(b, "%s: %zu of %zu", sides[1].row->name, i + 1, n);
	}
	if (!e)
		compare(sides);
	return e;
}

struct row *door_row(struct bench *b, const char *scenario, enum door d, const char *rest)
{
	autofree char *name = xasprintf("%s %s", doors[d].name, rest);

	return bench_row(b, scenario, name, doors[d].floor, doors[d].what);
}

struct err *doors_measure(struct bench *b, struct callers *c, const char *sandbox,
			  const char *scenario, const char *rest)
{
	autofree char *user = xasprintf("by a user%s", rest);
	autofree char *agent = xasprintf("by an agent%s", rest);
	struct err *e = NULL;

	for (enum door d = 0; !e && d < DOOR_MAX_; d++) {
		struct side sides[2] = { { .who = &c->user }, { .who = &c->agent } };

		if (doors[d].router && !*b->router.addr) {
			(void)fprintf(stderr,
				      "cay: bench: %s: left out, because --router is empty\n",
				      doors[d].name);
			continue;
		}
		sides[0].row = door_row(b, scenario, d, user);
		sides[1].row = door_row(b, scenario, d, agent);
		e = doors_in_turn(b, c, sandbox, d, sides);
	}
	return e;
}

struct err *scenario_doors(struct bench *b)
{
	struct callers c = { 0 };
	struct err *e = callers_open(b, "doors", &c);

	if (!e)
		e = doors_measure(b, &c, "doors", "doors", "");
	callers_close(&c);
	return e ? e : world_empty(b);
}
