/* SPDX-License-Identifier: Apache-2.0 */
#include "client/access.h"

#include <stdio.h>

#include "base/log.h"
#include "base/str.h"
#include "loop/loop.h"
#include "test.h"

/* A Pod of which the test decides what happens. */
struct pod {
	const struct access_events *ev;
	void *arg;
	int n_started, n_written, n_canceled;
	char written[16];
	const char *attachment;
	enum access_view view;
	bool broken;
};

static struct err *pod_start(struct pod *p, const struct access_events *ev, void *arg, void **ret)
{
	if (p->broken)
		return err_new(ERR_UNAVAILABLE, "start");
	p->ev = ev;
	p->arg = arg;
	p->n_started++;
	*ret = p;
	return NULL;
}

static struct err *pod_exec(void *ctx, const struct access_exec_spec *spec,
			    const struct access_events *ev, void *arg, void **ret)
{
	struct pod *p = ctx;

	p->attachment = spec->permit.attachment;
	p->view = spec->permit.view;
	return pod_start(ctx, ev, arg, ret);
}

static struct err *pod_dial(void *ctx, unused const struct access_dial_spec *spec,
			    const struct access_events *ev, void *arg, void **ret)
{
	return pod_start(ctx, ev, arg, ret);
}

static void pod_write(void *session, const void *p, size_t len)
{
	struct pod *pod = session;

	pod->n_written++;
	(void)snprintf(pod->written, sizeof(pod->written), "%.*s", (int)len, (const char *)p);
}

static bool pod_full(unused void *session)
{
	return false;
}

static void pod_end_input(unused void *session)
{
}

static void pod_cancel(void *session)
{
	((struct pod *)session)->n_canceled++;
}

static const struct access_ops pod_ops = { .exec = pod_exec,
					   .dial = pod_dial,
					   .write = pod_write,
					   .full = pod_full,
					   .end_input = pod_end_input,
					   .cancel = pod_cancel };

struct guest {
	size_t got;
	int code, n_ended, n_began;
	char *said;
	struct access_session *other; /* one that ends with it; NULL: none */
};

static void on_output(void *arg, unused int fd, unused const char *data, size_t len)
{
	((struct guest *)arg)->got += len;
}

static void on_ended(void *arg, unused const struct err *e, int code, unused int signal)
{
	struct guest *g = arg;

	g->code = code;
	g->n_ended++;
	if (g->other)
		access_cancel(take(g->other));
}

static void on_said(void *arg, const char *text)
{
	struct guest *g = arg;

	free(g->said);
	g->said = xstrdup(text);
}

static void on_began(void *arg)
{
	((struct guest *)arg)->n_began++;
}

static const struct access_events guest_events = { .output = on_output, .ended = on_ended };
static const struct access_events told_events = {
	.output = on_output, .ended = on_ended, .said = on_said, .began = on_began
};
static const struct access_exec_spec web = {
	.to = { .ns = "default", .pod = "web", .user = "eve" }
};

TEST(an_exec_passes_through_to_the_pod)
{
	struct pod pod = { 0 };
	struct guest g = { 0 };
	autoptr(access) a = access_new(&pod_ops, &pod);
	struct access_session *s = NULL;

	works(access_exec(a, &web, &guest_events, &g, &s));
	access_write(s, "x", 1);
	pod.ev->output(pod.arg, 1, "abc", 3);
	pod.ev->ended(pod.arg, NULL, 7, 0);
	eq_int(pod.n_written, 1);
	eq_int(g.got, 3);
	eq_int(g.code, 7);
	eq_int(g.n_ended, 1);
}

TEST(a_cancelled_session_ends_silently)
{
	struct pod pod = { 0 };
	struct guest g = { 0 };
	autoptr(access) a = access_new(&pod_ops, &pod);
	struct access_session *s = NULL;

	works(access_dial(a, &(struct access_dial_spec){ web.to, 80 }, &guest_events, &g, &s));
	access_cancel(s);
	eq_int(pod.n_canceled, 1);
	eq_int(g.n_ended, 0);
}

TEST(a_pod_that_cannot_start_is_an_error)
{
	struct pod pod = { .broken = true };
	struct guest g = { 0 };
	autoptr(access) a = access_new(&pod_ops, &pod);
	struct access_session *s = NULL;

	fails(access_exec(a, &web, &guest_events, &g, &s), ERR_UNAVAILABLE);
}

/* A policy that answers when the test does. */
struct judge {
	struct loop *loop;
	struct access_question *q; /* NULL: none is open */
	const char *refuse;        /* ways that are refused at once; NULL: none */
	char *input;               /* as it was last known */
	char *deed;                /* what it was asked about last */
	bool later, after_input, fallen;
	int n_asked, n_canceled;
};

static void judge_ask(void *arg, const struct access_ask *ask, struct access_question *q)
{
	struct judge *j = arg;
	const struct access_permit p = { "desk", "uid-desk", ACCESS_VIEW_SCRATCH };

	j->n_asked++;
	free(j->deed);
	j->deed = xasprintf("%s %s %s%s", str_or(ask->deed.tool, "-"), str_or(ask->deed.path, "-"),
			    ask->deed.argv ? ask->deed.argv[0] : "-",
			    ask->deed.loose ? " loose" : "");
	if (str_eq(ask->way, j->refuse) && str_eq(ask->to->user, "eve")) {
		q->refused(q, err_new(ERR_FORBIDDEN, "go away"));
	} else if (j->after_input && !ask->input_known) {
		q->after_input(q);
	} else if (j->later) {
		free(j->input);
		j->input = xstrndup(ask->input, ask->input_len);
		j->q = q;
		q->say(q, "wait\n");
	} else {
		q->allowed(q, &p);
	}
}

static void judge_cancel(void *arg, unused struct access_question *q)
{
	((struct judge *)arg)->n_canceled++;
}

static bool judge_stands(void *arg, unused const struct access_ask *ask,
			 unused const struct access_permit *p)
{
	return !((struct judge *)arg)->fallen;
}

static void judge_sits(struct judge *j, struct access *a)
{
	const struct access_policy p = { .ask = judge_ask,
					 .cancel = judge_cancel,
					 .stands = judge_stands };
	struct access_policy with = p;

	works(loop_new(&j->loop));
	with.loop = j->loop;
	access_set_policy(a, &with, j);
}

static void judge_done(struct judge *j)
{
	free(j->input);
	free(j->deed);
	loop_free(j->loop);
}

TEST(a_policy_refuses_before_anything_starts)
{
	struct pod pod = { 0 };
	struct guest g = { 0 };
	struct judge j = { .refuse = "exec" };
	autoptr(access) a = access_new(&pod_ops, &pod);
	struct access_session *s = NULL;

	judge_sits(&j, a);
	fails(access_exec(a, &web, &guest_events, &g, &s), ERR_FORBIDDEN);
	eq_int(pod.n_started, 0);
	works(access_dial(a, &(struct access_dial_spec){ web.to, 80 }, &guest_events, &g, &s));
	access_cancel(s);
	judge_done(&j);
}

TEST(a_probe_asks_nobody)
{
	struct pod pod = { 0 };
	struct guest g = { 0 };
	struct judge j = { .refuse = "exec" };
	autoptr(access) a = access_new(&pod_ops, &pod);
	struct access_exec_spec probe = web;
	struct access_session *s = NULL;

	judge_sits(&j, a);
	probe.probe = true;
	works(access_exec(a, &probe, &guest_events, &g, &s));
	eq_int(j.n_asked, 0);
	access_cancel(s);
	judge_done(&j);
}

TEST(what_was_sent_while_waiting_arrives_after_the_answer)
{
	struct pod pod = { 0 };
	struct guest g = { 0 };
	struct judge j = { .later = true };
	autoptr(access) a = access_new(&pod_ops, &pod);
	struct access_exec_spec spec = web;
	struct access_session *s = NULL;
	const struct access_permit p = { "desk", "uid-desk", ACCESS_VIEW_READ_ONLY };

	judge_sits(&j, a);
	spec.stdin_open = true;
	works(access_exec(a, &spec, &guest_events, &g, &s));
	eq_int(g.got, 0); /* not from within the call */
	(void)loop_turn(j.loop, 0);
	eq_int(g.got, 5); /* but it is told */
	access_write(s, "one", 3);
	access_write(s, "two", 3);
	eq_int(pod.n_started, 0);
	j.q->allowed(j.q, &p);
	eq_int(pod.n_started, 0); /* not from within the answer */
	(void)loop_turn(j.loop, 0);
	eq_int(pod.n_started, 1);
	eq_str(pod.attachment, "desk");
	eq_int(pod.view, ACCESS_VIEW_READ_ONLY);
	eq_str(pod.written, "onetwo");
	pod.ev->ended(pod.arg, NULL, 0, 0);
	eq_int(g.n_ended, 1);
	judge_done(&j);
}

TEST(a_late_refusal_ends_the_session)
{
	struct pod pod = { 0 };
	struct guest g = { 0 };
	struct judge j = { .later = true };
	autoptr(access) a = access_new(&pod_ops, &pod);
	struct access_session *s = NULL;

	judge_sits(&j, a);
	works(access_exec(a, &web, &guest_events, &g, &s));
	j.q->refused(j.q, err_new(ERR_FORBIDDEN, "no"));
	eq_int(g.n_ended, 0);
	(void)loop_turn(j.loop, 0);
	eq_int(g.n_ended, 1);
	eq_int(pod.n_started, 0);
	judge_done(&j);
}

TEST(who_leaves_takes_the_question_back)
{
	struct pod pod = { 0 };
	struct guest g = { 0 };
	struct judge j = { .later = true };
	autoptr(access) a = access_new(&pod_ops, &pod);
	struct access_session *s = NULL;

	judge_sits(&j, a);
	works(access_exec(a, &web, &guest_events, &g, &s));
	access_cancel(s);
	eq_int(j.n_canceled, 1);
	(void)loop_turn(j.loop, 0);
	eq_int(g.n_ended, 0);
	judge_done(&j);
}

TEST(a_policy_may_want_to_know_all_of_the_input_first)
{
	struct pod pod = { 0 };
	struct guest g = { 0 };
	struct judge j = { .later = true, .after_input = true };
	autoptr(access) a = access_new(&pod_ops, &pod);
	struct access_exec_spec spec = web;
	struct access_session *s = NULL;

	judge_sits(&j, a);
	spec.stdin_open = true;
	works(access_exec(a, &spec, &guest_events, &g, &s));
	access_write(s, "abc", 3);
	is_true(!j.q);
	access_end_input(s);
	eq_str(j.input, "abc");
	j.q->allowed(j.q, NULL);
	(void)loop_turn(j.loop, 0);
	eq_str(pod.written, "abc");
	access_cancel(s);
	judge_done(&j);
}

TEST(input_that_is_too_large_to_be_approved_is_refused)
{
	struct pod pod = { 0 };
	struct guest g = { 0 };
	struct judge j = { .after_input = true };
	autoptr(access) a = access_new(&pod_ops, &pod);
	autofree char *much = xmalloc(ACCESS_INPUT_MAX);
	struct access_exec_spec spec = web;
	struct access_session *s = NULL;

	memset(much, 'x', ACCESS_INPUT_MAX);
	judge_sits(&j, a);
	spec.stdin_open = true;
	works(access_exec(a, &spec, &guest_events, &g, &s));
	access_write(s, much, ACCESS_INPUT_MAX);
	is_false(access_full(s)); /* or what follows could not arrive */
	access_write(s, "x", 1);
	(void)loop_turn(j.loop, 0);
	eq_int(g.n_ended, 1);
	eq_int(pod.n_started, 0);
	judge_done(&j);
}

TEST(what_is_open_ends_with_what_allowed_it)
{
	struct pod pod = { 0 };
	struct guest g = { 0 };
	struct judge j = { 0 };
	autoptr(access) a = access_new(&pod_ops, &pod);
	struct access_session *s = NULL;

	judge_sits(&j, a);
	works(access_exec(a, &web, &guest_events, &g, &s));
	access_review(a);
	eq_int(g.n_ended, 0);
	j.fallen = true;
	access_review(a);
	eq_int(pod.n_canceled, 1);
	eq_int(g.n_ended, 1);
	judge_done(&j);
}

/* Half of them end another one each, some of which have not been looked at yet. */
TEST(the_end_of_one_may_end_others)
{
	enum {
		N = 100
	};
	struct pod pod = { 0 };
	struct guest g[N] = { 0 };
	struct judge j = { 0 };
	autoptr(access) a = access_new(&pod_ops, &pod);
	struct access_session *s[N] = { 0 };
	int n_ended = 0;

	judge_sits(&j, a);
	for (size_t i = 0; i < N; i++)
		works(access_exec(a, &web, &guest_events, &g[i], &s[i]));
	for (size_t i = 0; i < N / 2; i++)
		g[i].other = s[N - 1 - i];
	j.fallen = true;
	access_review(a);
	for (size_t i = 0; i < N; i++)
		n_ended += g[i].n_ended;
	eq_int(n_ended, N / 2);
	eq_int(pod.n_canceled, N);
	judge_done(&j);
}

TEST(a_tool_is_decided_about_as_what_it_is)
{
	static const char *const script[] = { "/bin/sh", "-c", "ours", NULL };
	static const char *const theirs[] = { "theirs", NULL };
	struct pod pod = { 0 };
	struct guest g = { 0 };
	struct judge j = { .later = true };
	autoptr(access) a = access_new(&pod_ops, &pod);
	struct access_exec_spec spec = web;
	struct access_session *s = NULL;

	judge_sits(&j, a);
	spec.argv = script;
	works(access_exec(a, &spec, &guest_events, &g, &s));
	eq_str(j.deed, "- - /bin/sh");
	access_cancel(s);
	spec.as = (struct access_deed){ .tool = "run", .argv = theirs };
	works(access_exec(a, &spec, &guest_events, &g, &s));
	eq_str(j.deed, "run - theirs");
	access_cancel(s);
	spec.as = (struct access_deed){ .tool = "read", .path = "x", .loose = true };
	works(access_exec(a, &spec, &guest_events, &g, &s));
	eq_str(j.deed, "read x - loose");
	access_cancel(s);
	spec.attach = true; /* to what runs already: nothing of this is about it */
	works(access_exec(a, &spec, &guest_events, &g, &s));
	eq_str(j.deed, "- - -");
	access_cancel(s);
	judge_done(&j);
}

TEST(who_wants_to_know_is_told_of_a_question_and_of_its_end)
{
	struct pod pod = { 0 };
	struct guest g = { 0 };
	struct judge j = { .later = true };
	autoptr(access) a = access_new(&pod_ops, &pod);
	struct access_session *s = NULL;

	judge_sits(&j, a);
	works(access_exec(a, &web, &told_events, &g, &s));
	(void)loop_turn(j.loop, 0);
	eq_str(g.said, "wait\n");
	eq_int(g.got, 0);
	eq_int(g.n_began, 0);
	j.q->allowed(j.q, NULL);
	(void)loop_turn(j.loop, 0);
	eq_int(g.n_began, 1);
	access_cancel(s);
	free(g.said);
	judge_done(&j);
}
