/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "node/pod/health_priv.h"
#include "node/pod/probe_priv.h"
#include "rig.h"

/* Ports tell the probes apart: 1 startup, 2 readiness, 3 liveness. */
#define PROBED(probes) "'containers':[{'name':'a','image':'img'," probes "}]"
#define READINESS                                                                         \
	"'readinessProbe':{'tcpSocket':{'port':2},'periodSeconds':10,'timeoutSeconds':3," \
	"'successThreshold':2,'failureThreshold':2}"
#define LIVENESS "'livenessProbe':{'tcpSocket':{'port':3},'periodSeconds':10,'failureThreshold':2}"
#define STARTUP  "'startupProbe':{'tcpSocket':{'port':1},'periodSeconds':10,'failureThreshold':3}"

static void run(struct rig *r, const char *spec)
{
	pod_create(r, "p", spec);
	fake_start(fake_last(&r->rt));
	turn(r);
}

static void tried(struct rig *r, uint16_t port, bool good)
{
	step(r, 10001);
	answer(port, good);
	turn(r);
}

TEST(a_verdict_changes_after_as_many_tries_as_the_thresholds_say)
{
	static const struct {
		const char *tries; /* + good, - bad */
		bool ok, dead;
	} rows[] = {
		{ "", false, false },     { "+", false, false },     { "++", true, false },
		{ "+-+", false, false },  { "++-", true, false },    { "++--", true, false },
		{ "++---", false, true }, { "++-+--", true, false }, { "---++", true, true },
	};
	const struct pod_probe_view rule = { .need_ok = 2, .need_bad = 3 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct probe_score s = { 0 };

		for (const char *t = rows[i].tries; *t; t++) {
			struct probe_score was = s;
			bool changed = probe_count(&s, &rule, *t == '+');

			eq_int(changed, was.ok != s.ok || was.dead != s.dead);
		}
		eq_int(s.ok, rows[i].ok);
		eq_int(s.dead, rows[i].dead);
	}
}

TEST(readiness_is_gained_and_lost)
{
	struct rig r;

	rig_open(&r);
	run(&r, PROBED(READINESS));
	eq_str(ready_of(&r, "p"), "False");
	step(&r, 6); /* the first try comes early */
	answer(2, true);
	turn(&r);
	eq_str(ready_of(&r, "p"), "False");
	tried(&r, 2, true);
	eq_str(ready_of(&r, "p"), "True");
	tried(&r, 2, false);
	eq_str(ready_of(&r, "p"), "True");
	tried(&r, 2, false);
	eq_str(ready_of(&r, "p"), "False");
	eq_int(count_events(&r, "Unhealthy"), 1);
	tried(&r, 2, true);
	tried(&r, 2, true);
	eq_str(ready_of(&r, "p"), "True");
	is_false(fake_last(&r.rt)->killed);
	rig_done(&r);
}

TEST(a_try_that_takes_too_long_has_failed)
{
	struct rig r;

	rig_open(&r);
	run(&r, PROBED(READINESS));
	step(&r, 6);
	eq_int(tries_of(2), 1);
	step(&r, 2000);
	eq_int(tries_of(2), 1);
	step(&r, 1001);
	step(&r, 9000);
	eq_int(tries_of(2), 1); /* a period after the end of the last */
	step(&r, 1001);
	eq_int(tries_of(2), 2);
	step(&r, 3001);
	eq_int(count_events(&r, "Unhealthy"), 1);
	rig_done(&r);
}

TEST(a_liveness_probe_kills_and_the_policy_restarts)
{
	struct rig r;

	rig_open(&r);
	run(&r, PROBED(LIVENESS));
	eq_str(ready_of(&r, "p"), "True"); /* alive until shown otherwise */
	tried(&r, 3, false);
	is_false(fake_last(&r.rt)->killed);
	tried(&r, 3, true);
	tried(&r, 3, false);
	is_false(fake_last(&r.rt)->killed);
	tried(&r, 3, false);
	eq_int(fake_last(&r.rt)->last_signal, SIGTERM); /* it has the Pod's grace of 30 s */
	step(&r, 29000);
	is_false(fake_last(&r.rt)->killed);
	step(&r, 1001);
	is_true(fake_last(&r.rt)->killed);
	eq_int(count_events(&r, "Killing"), 1);
	fake_end(fake_last(&r.rt));
	turn(&r);
	eq_int(fake_count(&r.rt), 2);
	rig_done(&r);
}

TEST(a_startup_probe_holds_the_others_back)
{
	struct rig r;

	rig_open(&r);
	run(&r, PROBED(STARTUP "," LIVENESS));
	eq_str(told(&r, "p", "containerStatuses.0.started"), "false");
	eq_str(ready_of(&r, "p"), "False");
	tried(&r, 1, false);
	tried(&r, 1, false);
	eq_int(tries_of(3), 0);
	tried(&r, 1, true);
	eq_str(told(&r, "p", "containerStatuses.0.started"), "true");
	eq_str(ready_of(&r, "p"), "True");
	for (int i = 0; i < 2; i++)
		tried(&r, 3, false);
	eq_int(tries_of(1), 3); /* it is not asked again */
	eq_int(fake_last(&r.rt)->last_signal, SIGTERM);
	rig_done(&r);
}

TEST(a_start_that_never_succeeds_is_killed)
{
	struct rig r;

	rig_open(&r);
	run(&r, PROBED(STARTUP));
	for (int i = 0; i < 3; i++) {
		eq_int(fake_last(&r.rt)->last_signal, 0);
		tried(&r, 1, false);
	}
	eq_int(fake_last(&r.rt)->last_signal, SIGTERM);
	rig_done(&r);
}

TEST(a_probe_may_have_a_grace_of_its_own)
{
	static const unsigned graces_s[] = { 1, 5 };

	for (size_t i = 0; i < ARRAY_LEN(graces_s); i++) {
		struct rig r;
		autofree char *spec = xasprintf(
			PROBED("'livenessProbe':{'tcpSocket':{'port':3},'periodSeconds':10,"
			       "'failureThreshold':1,'terminationGracePeriodSeconds':%u}"),
			graces_s[i]);

		rig_open(&r);
		run(&r, spec);
		tried(&r, 3, false);
		step(&r, graces_s[i] * 1000 - 100);
		is_true(!fake_last(&r.rt)->killed);
		step(&r, 101);
		is_true(fake_last(&r.rt)->killed);
		rig_done(&r);
	}
}

#define POST_START "'lifecycle':{'postStart':{'tcpSocket':{'port':4}}}"
#define PRE_STOP   "'lifecycle':{'preStop':{'tcpSocket':{'port':5}}}"

TEST(a_container_has_started_when_its_post_start_hook_has_ended)
{
	struct rig r;

	rig_open(&r);
	run(&r, PROBED(POST_START "," LIVENESS));
	eq_int(tries_of(4), 1);
	eq_str(told(&r, "p", "containerStatuses.0.started"), "false");
	step(&r, 20000);
	eq_int(tries_of(3), 0);
	answer(4, true);
	turn(&r);
	eq_str(told(&r, "p", "containerStatuses.0.started"), "true");
	eq_str(ready_of(&r, "p"), "True");
	tried(&r, 3, true);
	eq_int(tries_of(4), 1); /* it runs once */
	rig_done(&r);
}

TEST(a_post_start_hook_that_fails_ends_the_container)
{
	struct rig r;

	rig_open(&r);
	run(&r, PROBED(POST_START));
	answer(4, false);
	turn(&r);
	eq_int(count_events(&r, "FailedPostStartHook"), 1);
	eq_int(fake_last(&r.rt)->last_signal, SIGTERM);
	rig_done(&r);
}

TEST(a_pre_stop_hook_comes_before_the_signal_and_within_the_grace)
{
	static const struct {
		bool answers, good;
	} rows[] = { { true, true }, { true, false }, { false } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rig r;

		rig_open(&r);
		run(&r, PROBED(PRE_STOP));
		pod_delete(&r, "p", 20);
		until(&r, tries_of(5) == 1);
		eq_int(fake_last(&r.rt)->last_signal, 0);
		if (rows[i].answers)
			answer(5, rows[i].good);
		turn(&r);
		eq_int(fake_last(&r.rt)->last_signal, rows[i].answers ? SIGTERM : 0);
		is_false(fake_last(&r.rt)->killed);
		step(&r, 20001);
		is_true(fake_last(&r.rt)->killed);
		rig_done(&r);
	}
}

TEST(a_container_that_ends_is_not_tried_any_more)
{
	struct rig r;
	unsigned n;

	rig_open(&r);
	run(&r, "'restartPolicy':'Never'," PROBED(READINESS));
	step(&r, 6);
	fake_exit(fake_last(&r.rt), 0);
	turn(&r);
	n = tries_of(2);
	step(&r, 60000);
	eq_int(tries_of(2), n);
	rig_done(&r);
}

#define HTTP_GET  "'httpGet':{'path':'/','port':%d}"
#define HTTPS_GET "'httpGet':{'path':'/','scheme':'HTTPS','port':%d}"
#define GRPC      "'grpc':{'port':%d}"

enum {
	HEALTH_BAD = 99,
};

static char *handler_text(const char *handler, uint16_t port)
{
	const char *at = strstr(handler, "%d");

	return xasprintf("%.*s%d%s", (int)(at - handler), handler, port, at + 2);
}

/* Probes go to this machine's own address. */
static void real_tries(struct rig *r)
{
	rig_open(r);
	rig_stop(r);
	r->real_tries = true;
	r->rt.given_ip = "127.0.0.1";
	rig_start(r);
}

static void run_handler(struct rig *r, const char *handler)
{
	autofree char *spec = xasprintf(
		PROBED("'readinessProbe':{%s,'failureThreshold':1,'timeoutSeconds':60}"), handler);

	run(r, spec);
	step(r, 6);
}

/* A socket of this machine that nobody serves yet. */
static int bind_any(uint16_t *ret_port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	is_true(fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof(a)));
	is_true(!getsockname(fd, (struct sockaddr *)&a, &len));
	*ret_port = ntohs(a.sin_port);
	return fd;
}

TEST(a_failed_try_names_its_cause)
{
	static const struct {
		const char *handler;
		const char *answer, *why; /* answer NULL: nobody listens */
	} rows[] = {
		{ HTTP_GET, NULL, "Connection refused" },
		{ HTTP_GET, "HTTP/1.1 503 No\r\n\r\n", "HTTP probe failed with statuscode: 503" },
		{ HTTP_GET, "HELLO\r\n", "not HTTP" },
		/* a 2 where HTTP has its status */
		{ HTTP_GET, "SSH-2.0-s200 here\r\n", "not HTTP" },
		{ HTTPS_GET, "HTTP/1.1 200 OK\r\n\r\n", "TLS" },
		{ GRPC, NULL, "Connection refused" },
		{ GRPC, "HTTP/1.1 200 OK\r\n\r\n", "health rpc probe failed" },
		{ GRPC, "", "closed the connection" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct rig r;
		uint16_t port;
		autoclose fd = bind_any(&port), peer = -1;
		autofree char *handler = handler_text(rows[i].handler, port);

		real_tries(&r);
		if (rows[i].answer)
			is_true(!listen(fd, 1));
		run_handler(&r, handler);
		if (rows[i].answer) {
			until(&r, peer >= 0 || (peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0);
			works(fd_write_all(peer, rows[i].answer, strlen(rows[i].answer)));
			is_true(!shutdown(peer, SHUT_WR));
		}
		until(&r, count_events(&r, "Unhealthy") > 0);
		if (!event_says(&r, "Unhealthy", rows[i].why))
			fail_msg("row %zu: no Event says %s", i, rows[i].why);
		rig_done(&r);
	}
}

TEST(an_http_probe_sends_the_headers_that_it_was_given)
{
	struct rig r;
	uint16_t port;
	autoclose fd = bind_any(&port), peer = -1;
	autofree char *handler =
		handler_text("'httpGet':{'path':'healthz','port':%d,'httpHeaders':["
			     "{'name':'X-A','value':'1'},{'name':'host','value':'me'}]}",
			     port);
	char text[512] = "";
	size_t len = 0;

	real_tries(&r);
	is_true(!listen(fd, 1));
	run_handler(&r, handler);
	until(&r, peer >= 0 || (peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
	until(&r, (len += (size_t)MAX(recv(peer, text + len, sizeof(text) - 1 - len, 0), 0)) &&
			  strstr(text, "\r\n\r\n"));
	eq_str(text, "GET /healthz HTTP/1.1\r\nX-A: 1\r\nHost: me\r\nUser-Agent: cay-probe\r\n"
		     "Connection: close\r\n\r\n");
	rig_done(&r);
}

TEST(the_answer_to_a_health_check_is_read_as_its_format_says)
{
	static const struct {
		const char *bytes;
		size_t len;
		uint64_t status; /* HEALTH_BAD: it is none */
	} rows[] = {
		{ "\0\0\0\0\2\x08\1", 7, HEALTH_SERVING },
		{ "\0\0\0\0\2\x08\2", 7, HEALTH_NOT_SERVING },
		{ "\0\0\0\0\0", 5, HEALTH_UNKNOWN },
		{ "\0\0\0\0\7\x12\3abc\x08\1", 12, HEALTH_SERVING }, /* a field of tomorrow */
		{ "\0\0\0\0\4\x08\2\x08\1", 9, HEALTH_SERVING },     /* the last one counts */
		{ "\0\0\0\0", 4, HEALTH_BAD },
		{ "\1\0\0\0\2\x08\1", 7, HEALTH_BAD }, /* compressed */
		{ "\0\0\0\0\3\x08\1", 7, HEALTH_BAD },
		{ "\0\0\0\0\1\x08\1", 7, HEALTH_BAD },
		{ "\0\0\0\0\2\x08\x81", 7, HEALTH_BAD },
		{ "\0\0\0\0\2\x12\x7f", 7, HEALTH_BAD },
		{ "\0\0\0\0\1\x0b", 6, HEALTH_BAD }, /* a group */
		{ "\0\0\0\0\2\0\1", 7, HEALTH_BAD }, /* field 0 */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t status = HEALTH_BAD;
		struct err *e = health_response(rows[i].bytes, rows[i].len, &status);

		eq_int(status, rows[i].status);
		eq_int(e != NULL, rows[i].status == HEALTH_BAD);
		err_free(e);
	}
}

TEST(a_health_check_names_its_service)
{
	autobuf whole = { 0 }, named = { 0 };

	health_request(&whole, "");
	eq_int(whole.len, 5);
	is_true(!memcmp(buf_head(&whole), "\0\0\0\0\0", 5));
	health_request(&named, "db");
	eq_int(named.len, 9);
	is_true(!memcmp(buf_head(&named), "\0\0\0\0\4\x0a\2db", 9));
}
