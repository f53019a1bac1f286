/* SPDX-License-Identifier: Apache-2.0 */
#include "router/callers/reviews.h"

#include <sys/socket.h>
#include <unistd.h>

#include "rig.h"
#include "router/callers/pass.h"
#include "router/callers/reviews_priv.h"

/* The numbers are those of docs/reference/dataplane.md §6.6. */
#define TO(name, token) \
	"X-Sandbox-ID: " name "\r\nX-Sandbox-Port: %u\r\nAuthorization: Bearer " token "\r\n"
#define ANN  "{\"authenticated\":true,\"user\":{\"username\":\"ann\",\"groups\":[\"g\"]}}"
#define NONE "{\"authenticated\":false,\"error\":\"no\"}"
#define YES  "{\"allowed\":true}"
#define NO   "{\"allowed\":false}"

/* A request that is under way. */
static int begin(struct rig *g, const char *headers)
{
	int fd = rig_connect(g);

	rig_send(g, fd, "GET / HTTP/1.1\r\nHost: f\r\nConnection: close\r\n%s\r\n", headers);
	return fd;
}

static int begin_as(struct rig *g, const char *box, const char *token)
{
	autofree char *text =
		xasprintf("X-Sandbox-ID: %s\r\nX-Sandbox-Port: %u\r\nAuthorization: Bearer %s\r\n",
			  box, g->port, token);

	return begin(g, text);
}

static int end(struct rig *g, int fd)
{
	autofree char *a = rig_read(g, fd, NULL);

	(void)close(fd);
	return rig_status(a);
}

static void start(struct rig *g, enum reviews_mode mode)
{
	rig_start(g, NULL);
	rig_ready(g, "box", "127.0.0.2");
	rig_guard(g, &(struct reviews_spec){ .mode = mode, .ttl_ms = 60000, .max = 100 });
}

TEST(dataplane_145_and_147_a_token_is_asked_about_once)
{
	struct rig g = { 0 };
	autofree char *a = NULL, *b = NULL;
	int first, second;

	start(&g, REVIEWS_TOKEN);
	first = begin_as(&g, "box", "good");
	until(g.l, g.n_asked == 1);
	second = begin_as(&g, "box", "good");
	rig_settle(&g);
	eq_int(g.n_requests, 0);
	is_true(strstr(g.asked[0].text, "{\"spec\":{\"token\":\"good\"}"));
	rig_say(&g, 0, ANN);
	eq_int(end(&g, first), 201);
	eq_int(end(&g, second), 201);
	a = rig_ask(&g, "GET /", TO("box", "good"), g.port);
	eq_int(rig_status(a), 201);
	eq_int(g.n_asked, 1);

	first = begin_as(&g, "box", "bad");
	until(g.l, g.n_asked == 2);
	rig_say(&g, 1, NONE);
	eq_int(end(&g, first), 401);
	b = rig_ask(&g, "GET /", TO("box", "bad"), g.port);
	eq_int(rig_status(b), 401);
	is_true(strstr(b, "{\"detail\":\"unauthenticated\"}\n"));
	eq_int(g.n_asked, 2);
	eq_int(g.n_requests, 3);
	rig_stop(&g);
}

TEST(dataplane_143_and_146_no_token)
{
	struct rig g = { 0 }, open = { 0 }, all = { 0 };
	autofree char *a = NULL, *b = NULL, *c = NULL;

	start(&g, REVIEWS_TOKEN);
	a = rig_ask(&g, "GET /", "X-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n", g.port);
	eq_int(rig_status(a), 401);
	eq_int(g.n_requests, 0);
	rig_stop(&g);

	rig_start(&open, NULL);
	rig_ready(&open, "box", "127.0.0.2");
	rig_guard(&open, &(struct reviews_spec){ .mode = REVIEWS_TOKEN,
						 .token_optional = true,
						 .ttl_ms = 60000,
						 .max = 100 });
	b = rig_ask(&open, "GET /", "X-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n", open.port);
	eq_int(rig_status(b), 201);
	eq_int(open.n_asked, 0);
	rig_stop(&open);

	start(&all, REVIEWS_ALLOW);
	c = rig_ask(&all, "GET /", TO("box", "whatever"), all.port);
	eq_int(rig_status(c), 201);
	eq_int(all.n_asked, 0);
	rig_stop(&all);
}

TEST(dataplane_148_an_api_server_that_fails_is_500)
{
	static const char *const audiences[] = { "router", NULL };
	struct rig g = { 0 };
	autofree char *a = NULL, *b = NULL;
	int fd;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	rig_guard(&g, &(struct reviews_spec){ .mode = REVIEWS_TOKEN,
					      .audiences = audiences,
					      .ttl_ms = 60000,
					      .max = 100 });
	fd = begin_as(&g, "box", "t");
	until(g.l, g.n_asked == 1);
	is_true(strstr(g.asked[0].text, "\"audiences\":[\"router\"]"));
	rig_say(&g, 0, NULL);
	a = rig_read(&g, fd, NULL);
	eq_int(rig_status(a), 500);
	is_true(strstr(a, "{\"detail\":\"tokenreview: the API server gave no answer\"}"));
	b = rig_ask(&g, "GET /", TO("box", "t"), g.port); /* that is remembered as well */
	eq_int(rig_status(b), 500);
	eq_int(g.n_asked, 1);
	(void)close(fd);

	fd = begin_as(&g, "box", "for-another"); /* the answer does not name our audience */
	until(g.l, g.n_asked == 2);
	rig_say(&g, 1, ANN);
	eq_int(end(&g, fd), 401);
	rig_stop(&g);
}

TEST(an_api_server_that_is_silent_is_500)
{
	struct rig g = { 0 };
	autofree char *a = NULL;

	rig_start(&g, NULL);
	rig_guard(&g, &(struct reviews_spec){
			      .mode = REVIEWS_RBAC, .ttl_ms = 60000, .max = 100, .ask_ms = 20 });
	a = rig_ask(&g, "GET /", TO("box", "t"), g.port);
	eq_int(rig_status(a), 500);
	eq_int(g.n_asked, 1);
	rig_stop(&g);
}

TEST(dataplane_150_rights_of_a_certificate)
{
	static const char *const groups[] = { "dev", "ops", NULL };
	autoptr(json_doc) a =
		review_access_named("spiffe://a/b", groups, &(struct review_object){ "ns", "pod" });
	autofree char *text = json_to_text(json_root(a));

	is_true(strstr(text, "\"user\":\"spiffe://a/b\",\"groups\":[\"dev\",\"ops\","
			     "\"system:authenticated\"]"));
}

TEST(rights_are_asked_about_by_sandbox)
{
	struct rig g = { 0 };
	autofree char *again = NULL, *no = NULL;
	int fd;

	start(&g, REVIEWS_RBAC);
	rig_sandbox(&g, "other",
		    "{\"metadata\":{\"annotations\":{\"agents.x-k8s.io/pod-name\":\"pod-7\"}}}");
	fd = begin_as(&g, "box", "t");
	until(g.l, g.n_asked == 1);
	rig_say(&g, 0, ANN);
	until(g.l, g.n_asked == 2);
	eq_int(g.n_requests, 0);
	is_true(strstr(g.asked[1].text, "\"user\":\"ann\",\"groups\":[\"g\"]"));
	is_true(strstr(g.asked[1].text,
		       "{\"namespace\":\"default\",\"verb\":\"create\",\"group\":\"\","
		       "\"version\":\"v1\",\"resource\":\"pods\",\"subresource\":\"exec\","
		       "\"name\":\"box\"}"));
	rig_say(&g, 1, YES);
	eq_int(end(&g, fd), 201);
	again = rig_ask(&g, "GET /", TO("box", "t"), g.port);
	eq_int(rig_status(again), 201);
	eq_int(g.n_asked, 2);

	fd = begin_as(&g, "other", "t"); /* who it is, is known */
	until(g.l, g.n_asked == 3);
	is_true(strstr(g.asked[2].text, "\"name\":\"pod-7\""));
	rig_say(&g, 2, NO);
	eq_int(end(&g, fd), 403);
	no = rig_ask(&g, "GET /", TO("other", "t"), g.port);
	is_true(strstr(no, "{\"detail\":\"forbidden\"}\n"));
	eq_int(g.n_asked, 3);
	eq_int(g.n_requests, 2);
	rig_stop(&g);
}

TEST(a_memory_of_one_is_enough)
{
	struct rig g = { 0 };
	struct reviews_stats st;
	int a, b;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	rig_guard(&g, &(struct reviews_spec){ .mode = REVIEWS_RBAC, .ttl_ms = 1, .max = 1 });
	a = begin_as(&g, "box", "a");
	b = begin_as(&g, "box", "b");
	until(g.l, g.n_asked == 2);
	rig_say(&g, 0, ANN);
	rig_say(&g, 1, ANN);
	until(g.l, g.n_asked == 4);
	rig_say(&g, 2, YES);
	rig_say(&g, 3, YES);
	eq_int(end(&g, a), 201);
	eq_int(end(&g, b), 201);
	reviews_stats(g.reviews, &st);
	eq_int(st.asked, 4);
	eq_int(st.known, 1);
	eq_int(st.under_way, 0);
	rig_stop(&g);
}

TEST(an_answer_is_forgotten)
{
	struct rig g = { 0 };
	usec then;
	int fd;

	rig_start(&g, NULL);
	rig_ready(&g, "box", "127.0.0.2");
	rig_guard(&g, &(struct reviews_spec){ .mode = REVIEWS_TOKEN, .ttl_ms = 1, .max = 9 });
	fd = begin_as(&g, "box", "a");
	until(g.l, g.n_asked == 1);
	rig_say(&g, 0, ANN);
	eq_int(end(&g, fd), 201);
	then = clock_mono();
	until(g.l, clock_mono() > then + 1000);
	fd = begin_as(&g, "box", "a");
	until(g.l, g.n_asked == 2);
	rig_say(&g, 1, NONE);
	eq_int(end(&g, fd), 401);
	rig_stop(&g);
}

TEST(strangers_cannot_ask_without_end)
{
	enum {
		MANY = 256
	};
	struct rig g = { 0 };
	autofree char *late = NULL;
	int fds[MANY];

	start(&g, REVIEWS_RBAC);
	for (int i = 0; i < MANY; i++) {
		autofree char *token = xasprintf("t%d", i);

		fds[i] = begin_as(&g, "box", token);
	}
	until(g.l, g.n_asked == MANY);
	late = rig_ask(&g, "GET /", TO("box", "one-more"), g.port);
	eq_int(rig_status(late), 503);
	is_true(strstr(late, "Retry-After: 1\r\n"));
	eq_int(g.n_asked, MANY);
	for (int i = 0; i < MANY; i++)
		(void)close(fds[i]); /* they leave while they wait */
	rig_settle(&g);
	rig_say(&g, 0, ANN);
	rig_say(&g, 1, NULL);
	rig_settle(&g);
	rig_stop(&g);
}

TEST(few_may_wait_for_an_answer)
{
	const struct router_spec spec = { .max_waiting = 2 };
	struct rig g = { 0 };
	autofree char *late = NULL;
	int fds[3];

	rig_start(&g, &spec);
	rig_ready(&g, "box", "127.0.0.2");
	rig_guard(&g, &(struct reviews_spec){ .mode = REVIEWS_TOKEN, .ttl_ms = 1000, .max = 9 });
	for (int i = 0; i < 2; i++)
		fds[i] = begin_as(&g, "box", "a");
	until(g.l, g.n_asked == 1);
	rig_settle(&g);
	late = rig_ask(&g, "GET /", TO("box", "a"), g.port);
	eq_int(rig_status(late), 503);
	(void)close(fds[0]); /* leaves its place to another */
	rig_settle(&g);
	fds[2] = begin_as(&g, "box", "a");
	rig_settle(&g);
	rig_say(&g, 0, ANN);
	eq_int(end(&g, fds[1]), 201);
	eq_int(end(&g, fds[2]), 201);
	rig_stop(&g);
}

TEST(a_certificate_may_be_required_of_scoped_tokens_too)
{
	static const char secret[] = "a secret that two share";
	const struct tls_seal_key key = { secret, strlen(secret) };
	const struct pass p = { .ns = "default",
				.id = "box",
				.expires = clock_wall() / 1000000 + 60 };
	autofree char *scoped = pass_seal(&key, PASS_SCOPED, &p);

	for (int needed = 0; needed < 2; needed++) {
		const struct router_spec spec = { .scoped_secret = secret,
						  .need_certificate = needed };
		struct rig g = { 0 };
		autofree char *any = NULL, *shown = NULL;

		rig_start(&g, &spec);
		rig_ready(&g, "box", "127.0.0.2");
		rig_guard(&g,
			  &(struct reviews_spec){ .mode = REVIEWS_ALLOW, .ttl_ms = 1, .max = 1 });
		any = rig_ask(&g, "GET /", TO("box", "t"), g.port);
		shown = rig_ask(&g, "GET /",
				"X-Sandbox-ID: box\r\nX-Sandbox-Port: %u\r\n"
				"Authorization: Bearer %s\r\n",
				g.port, scoped);
		eq_int(rig_status(any), needed ? 401 : 201);
		eq_int(rig_status(shown), needed ? 401 : 201);
		eq_int(strstr(shown, "a client certificate is required") != NULL, needed);
		eq_int(g.n_requests, needed ? 0 : 2);
		rig_stop(&g);
	}
}
