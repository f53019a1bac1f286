/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "client/access_priv.h"

/*
 * Copies of what callers own only until their call returns: a session that waits to be let in
 * begins later.
 */
const struct access_target *errand_to(const struct errand *e)
{
	if (e->exec)
		return &e->exec->to;
	return e->logs ? &e->logs->to : &e->dial->to;
}

static const char *const *copy_list(struct arena *a, const char *const *from)
{
	const char **to;
	size_t n = 0;

	if (!from)
		return NULL;
	while (from[n])
		n++;
	to = arena_new_n(a, const char *, n + 1);
	for (size_t i = 0; i < n; i++)
		to[i] = arena_strdup(a, from[i]);
	return to;
}

static void copy_target(struct arena *a, struct access_target *t)
{
	t->ns = arena_strdup(a, t->ns);
	t->pod = arena_strdup(a, t->pod);
	t->container = arena_strdup(a, t->container);
	t->user = arena_strdup(a, t->user);
	t->from = arena_strdup(a, t->from);
	t->account_ns = arena_strdup(a, t->account_ns);
	t->groups = copy_list(a, t->groups);
}

static const struct access_exec_spec *copy_exec(struct arena *a, const struct access_exec_spec *s)
{
	struct access_exec_spec *to;

	if (!s)
		return NULL;
	to = arena_new_of(a, struct access_exec_spec);
	*to = *s;
	copy_target(a, &to->to);
	to->argv = copy_list(a, s->argv);
	to->as.tool = arena_strdup(a, s->as.tool);
	to->as.path = arena_strdup(a, s->as.path);
	to->as.argv = copy_list(a, s->as.argv);
	return to;
}

static const struct access_log_spec *copy_logs(struct arena *a, const struct access_log_spec *s)
{
	struct access_log_spec *to;

	if (!s)
		return NULL;
	to = arena_new_of(a, struct access_log_spec);
	*to = *s;
	copy_target(a, &to->to);
	return to;
}

static const struct access_dial_spec *copy_dial(struct arena *a, const struct access_dial_spec *s)
{
	struct access_dial_spec *to;

	if (!s)
		return NULL;
	to = arena_new_of(a, struct access_dial_spec);
	*to = *s;
	copy_target(a, &to->to);
	to->sub = arena_strdup(a, s->sub);
	return to;
}

struct held *held_new(const struct errand *e)
{
	struct held *h = xnew(struct held);

	h->arena = arena_new();
	h->errand = (struct errand){
		.way = e->way, /* static */
		.sub = arena_strdup(h->arena, e->sub),
		.exec = copy_exec(h->arena, e->exec),
		.logs = copy_logs(h->arena, e->logs),
		.dial = copy_dial(h->arena, e->dial),
	};
	return h;
}

void held_free(struct held *h)
{
	if (!h)
		return;
	buf_done(&h->input);
	buf_done(&h->said);
	arena_free(h->arena);
	free(h);
}
