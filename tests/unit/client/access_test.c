/* SPDX-License-Identifier: Apache-2.0 */
#include "client/access.h"

#include "base/log.h"
#include "base/str.h"
#include "test.h"

/* A Pod of which the test decides what happens. */
struct pod {
	const struct access_events *ev;
	void *arg;
	int n_started, n_written, n_canceled;
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

static struct err *pod_exec(void *ctx, unused const struct access_exec_spec *spec,
			    const struct access_events *ev, void *arg, void **ret)
{
	return pod_start(ctx, ev, arg, ret);
}

static struct err *pod_dial(void *ctx, unused const struct access_dial_spec *spec,
			    const struct access_events *ev, void *arg, void **ret)
{
	return pod_start(ctx, ev, arg, ret);
}

static void pod_write(void *session, unused const void *p, unused size_t len)
{
	((struct pod *)session)->n_written++;
}

static void pod_cancel(void *session)
{
	((struct pod *)session)->n_canceled++;
}

static const struct access_ops pod_ops = {
	.exec = pod_exec, .dial = pod_dial, .write = pod_write, .cancel = pod_cancel
};

struct guest {
	size_t got;
	int code, n_ended;
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
}

static const struct access_events guest_events = { .output = on_output, .ended = on_ended };
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

static struct err *nobody(void *arg, const char *way, const struct access_target *to)
{
	if (str_eq(way, arg) && str_eq(to->user, "eve"))
		return err_new(ERR_FORBIDDEN, "go away");
	return NULL;
}

TEST(a_policy_refuses_before_anything_starts)
{
	struct pod pod = { 0 };
	struct guest g = { 0 };
	autoptr(access) a = access_new(&pod_ops, &pod);
	struct access_session *s = NULL;
	char exec[] = "exec";

	access_set_policy(a, nobody, exec);
	fails(access_exec(a, &web, &guest_events, &g, &s), ERR_FORBIDDEN);
	eq_int(pod.n_started, 0);
	works(access_dial(a, &(struct access_dial_spec){ web.to, 80 }, &guest_events, &g, &s));
	access_cancel(s);
}
