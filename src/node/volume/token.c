/* SPDX-License-Identifier: Apache-2.0 */
#include "client/token.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/random.h"
#include "base/str.h"
#include "loop/queue.h"
#include "node/volume/volume_priv.h"

/*
 * The tokens that Pods' volumes show. One is asked for when the volume is first written, kept here,
 * and renewed when a fifth of its life is left, or after a day; then the Pod's files are written
 * again, as after a change of an object. After a restart of the daemon nothing is kept, so every
 * Pod that it continues with gets new tokens.
 *
 * Times are those of the wall clock, because tokens expire by it: however long a renewal is away,
 * it is looked for every minute, for a machine that was asleep or has had its clock set.
 */
enum {
	POD_TOKENS_MAX = 32, /* each costs a signature */
	DAY_S = 24 * 3600,
	JITTER_S = 10, /* so that Pods that started together do not all renew together */
	LOOK_MS = 60 * 1000,
	RETRY_S = 30,
};

struct held_token {
	char *text;
	int64_t expires; /* in seconds since 1970 */
	int64_t renew;   /* the same: from then on another is asked for */
};

static int64_t now_s(void)
{
	return clock_wall() / 1000000;
}

int64_t token_renewal(int64_t now, int64_t expires, uint64_t random)
{
	int64_t life = expires - now, at;

	if (life <= 0)
		return now;
	at = now + MIN(life - life / 5, (int64_t)DAY_S);
	return at - MIN((int64_t)(random % JITTER_S), life / 20);
}

static void held_free(void *arg)
{
	struct held_token *t = arg;

	free(t->text);
	free(t);
}

static void free_map(void *arg)
{
	map_free(arg);
}

static struct err *issue(struct volumes *v, const struct pod_view *p,
			 const struct pod_volume_source *s, struct held_token *ret)
{
	const struct pod_token_wish w = { .ns = p->ns,
					  .account = str_empty(p->service_account)
							     ? "default"
							     : p->service_account,
					  .pod = p->name,
					  .pod_uid = p->uid,
					  .audience = s->audience,
					  .expire_s = s->expire_s };
	struct token_issuer from = v->spec.tokens;
	char *text = NULL;
	int64_t expires = 0;
	struct err *e;

	if (!from.issue)
		return err_new(ERR_UNAVAILABLE, "nobody issues tokens to this node");
	e = from.issue(from.arg, &w, &text, &expires);
	if (e) /* whatever it is, it may be better later */
		return err_recode(
			err_wrap(e, "request a token of service account \"%s\"", w.account),
			ERR_UNAVAILABLE);
	free(ret->text);
	ret->text = text;
	ret->expires = expires;
	ret->renew = token_renewal(now_s(), expires, random_u64());
	return NULL;
}

/* Keeps what there is as long as it is good for something. */
static struct err *renew(struct volumes *v, const struct pod_view *p,
			 const struct pod_volume_source *s, struct held_token *t)
{
	struct err *e = issue(v, p, s, t);

	if (!e)
		return NULL;
	t->renew = now_s() + RETRY_S;
	if (t->expires <= now_s())
		return e;
	log_warn("cannot renew a token, keeping the old one and trying again",
		 KV("namespace", p->ns), KV("pod", p->name), KV("err", e));
	err_free(e);
	return NULL;
}

static struct err *first(struct volumes *v, const struct pod_view *p, struct map *of_pod,
			 const char *key, const struct pod_volume_source *s)
{
	struct held_token *t;
	struct err *e;

	if (map_len(of_pod) >= POD_TOKENS_MAX)
		return err_new(ERR_EXHAUSTED, "the Pod has more than %d tokens", POD_TOKENS_MAX);
	t = xnew(struct held_token);
	e = issue(v, p, s, t);
	if (e) {
		held_free(t);
		return e;
	}
	map_put(of_pod, key, t);
	return NULL;
}

struct err *token_need(struct volumes *v, const struct pod_view *p, const char *key,
		       const struct pod_volume_source *s, const char **ret)
{
	struct map *of_pod = map_get(v->tokens, p->uid);
	struct held_token *t;
	struct err *e = NULL;

	if (!of_pod) {
		of_pod = map_new(held_free);
		map_put(v->tokens, p->uid, of_pod);
	}
	t = map_get(of_pod, key);
	if (!t)
		e = first(v, p, of_pod, key, s);
	else if (t->renew <= now_s())
		e = renew(v, p, s, t);
	if (e)
		return e;
	if (!queue_find(v->renewals, p->uid))
		queue_add_later(v->renewals, p->uid, LOOK_MS);
	t = map_get(of_pod, key);
	*ret = t->text;
	return NULL;
}

void tokens_forget(struct volumes *v, const char *uid)
{
	(void)map_del(v->tokens, uid);
}

/* 0: one of them is due. */
static int64_t left_s(const struct map *of_pod, int64_t now)
{
	int64_t left = LOOK_MS / 1000;

	map_each(it, of_pod)
		left = MIN(left, ((const struct held_token *)it.value)->renew - now);
	return MAX(left, (int64_t)0);
}

static struct again renew_pass(void *arg, struct queue_item *it)
{
	struct volumes *v = arg;
	const struct map *of_pod = map_get(v->tokens, it->key);
	int64_t left;

	if (!of_pod)
		return again_never();
	if (!left_s(of_pod, now_s()))
		v->spec.stale(v->spec.arg, it->key);
	of_pod = map_get(v->tokens, it->key);
	left = of_pod ? left_s(of_pod, now_s()) : 0;
	/* 0: nobody wrote the files, so the Pod is ending or has not begun. */
	return of_pod ? again_after((uint64_t)(left ? left : RETRY_S) * 1000) : again_never();
}

void tokens_open(struct volumes *v)
{
	const struct queue_spec spec = { .loop = v->spec.loop, .run = renew_pass, .arg = v };

	v->tokens = map_new(free_map);
	v->renewals = queue_new(&spec);
	queue_open(v->renewals);
}

void tokens_close(struct volumes *v)
{
	queue_free(take(v->renewals));
	map_free(take(v->tokens));
}
