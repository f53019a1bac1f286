/* SPDX-License-Identifier: Apache-2.0 */
#include "node/hold/hold.h"

#include "api/agents.h"
#include "api/event.h"
#include "api/object.h"
#include "api/registry.h"
#include "api/view_sandbox.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "client/client.h"
#include "loop/loop.h"
#include "node/hold/bell.h"
#include "node/hold/hold_priv.h"
#include "node/hold/record.h"
#include "node/runtime/runtime.h"

/*
 * A hold begins when the Pod of a Sandbox is deleted, and is over when the next Pod of the same
 * Sandbox has the address and is Ready, when the Sandbox is gone, or when there are too many.
 *
 *      the Pod is deleted             its successor has a network              and is Ready
 *   – ───── holds_keep() ─────→ held ─────── holds_taken() ───────→ taken ─── holds_ready() ───→ –
 *                                 └── the Sandbox is gone, or it is the oldest of too many ────→ –
 *
 * Between the last two steps the policies still see the Pod that the Sandbox would have, so that
 * there is no moment in which they shut out whoever woke it; and the runtime keeps the packets of
 * other sandboxes away from a Pod that would refuse them because it is still starting: they come
 * again.
 *
 * Only the Pod that a Sandbox tracks counts, and only while that Sandbox is to run: a Pod that
 * somebody made with the name of another's Sandbox in its ownerReferences finds it suspended.
 */
enum {
	SHARE = 2,            /* one part in so many of the pool may be held */
	READY_MS = 30 * 1000, /* that a Pod may take until others reach it in any case */
	TELL_US = 250 * 1000, /* between two packets that are told of one Sandbox */
};

static void hold_free(void *arg)
{
	struct hold *o = arg;

	object_unref(o->as_pod);
	free(o->uid);
	free(o->ns);
	free(o->name);
	free(o);
}

/* The Sandbox */

static bool lives(const struct object *sandbox)
{
	const struct sandbox_view *v = sandbox_view(sandbox);

	return !v->deleting && !v->in_pool && !sandbox_says_expired(v);
}

/* NULL: it is gone, or nothing of it will ever run again. The caller's. */
static struct object *sandbox_at(const struct holds *h, const char *ns, const char *name,
				 const char *uid)
{
	autoptr(object) o = client_get(h->spec.client, h->kind_sandbox, ns, name);

	return o && str_eq(o->uid, uid) && lives(o) ? object_ref(o) : NULL;
}

static struct object *sandbox_of(const struct holds *h, const struct hold *o)
{
	return sandbox_at(h, o->ns, o->name, o->uid);
}

/* Whether this is the Pod that it has, or had. */
static bool tracks(const struct object *sandbox, const char *pod)
{
	return str_eq(sandbox_view(sandbox)->pod_name, pod) || str_eq(sandbox->name, pod);
}

/* The Sandbox that tracks this Pod and controls it; NULL: none. The caller's. */
static struct object *sandbox_of_pod(const struct holds *h, const struct object *pod)
{
	const struct owner_view owner = owner_view_of(pod);
	autoptr(object) o =
		owner.type == OWNER_SANDBOX ? sandbox_at(h, pod->ns, owner.name, owner.uid) : NULL;

	return o && tracks(o, pod->name) ? object_ref(o) : NULL;
}

/* Holds */

static bool set_reserved(const struct holds *h, unsigned place, bool on)
{
	const struct runtime *rt = h->spec.runtime;
	char ip[16];

	instance_addr_text(h->spec.instance, place, ip);
	return rt->ops->net_reserve && rt->ops->net_reserve(rt->ctx, ip, on);
}

/* Packets to one that its user has suspended find nobody, and the sender is told so. Those to any
 * other wait: it is woken by them, or on its way. */
static bool is_awaited(const struct object *sandbox)
{
	return !sandbox_view(sandbox)->suspended || object_annotation(sandbox, KEY_ASLEEP_SINCE);
}

/* Something about it is different now. */
static void hold_changed(struct holds *h, struct hold *o)
{
	autoptr(object) sandbox = sandbox_of(h, o);

	object_unref(take(o->as_pod));
	o->awaited = sandbox && is_awaited(sandbox);
	bell_set(h->bell, o->place, o->awaited);
	h->spec.changed(h->spec.arg);
}

static struct hold *hold_add(struct holds *h, const struct hold_record *r, unsigned place)
{
	struct hold *o = xnew(struct hold);

	o->uid = xstrdup(r->uid);
	o->ns = xstrdup(r->ns);
	o->name = xstrdup(r->name);
	o->place = place;
	o->since = r->since;
	h->at[place] = o;
	map_put(h->all, o->uid, o);
	return o;
}

static void let_go(struct holds *h, struct hold *o)
{
	autofree char *uid = xstrdup(o->uid);

	bell_set(h->bell, o->place, false);
	(void)set_reserved(h, o->place, false);
	h->at[o->place] = NULL;
	(void)map_del(h->all, uid);
	h->version++;
	holds_save(h);
	h->spec.changed(h->spec.arg);
}

static void tell_let_go(const struct holds *h, const struct hold *o)
{
	static const char why[] = "Too many addresses are held for sandboxes that sleep: this one, "
				  "which has slept longest, gets another when it wakes";
	autoptr(object) sandbox = sandbox_of(h, o);
	const struct node_event event = { .about = sandbox,
					  .reason = "AddressReleased",
					  .message = why,
					  .node = h->spec.node_name,
					  .now = clock_wall() };

	log_info("too many addresses are held, letting the oldest go", KV("namespace", o->ns),
		 KV("sandbox", o->name));
	if (sandbox)
		client_create(
			h->spec.client,
			&(struct client_ref){ .kind = h->kind_event, .ns = node_event_ns(sandbox) },
			node_event_doc(&event), NULL);
}

static void make_room(struct holds *h)
{
	struct hold *oldest = NULL;

	if (map_len(h->all) < h->spec.max)
		return;
	map_each(it, h->all) {
		struct hold *o = it.value;

		if (!o->taken && (!oldest || o->since < oldest->since))
			oldest = o;
	}
	if (!oldest)
		return;
	tell_let_go(h, oldest);
	let_go(h, oldest);
}

/* For Pods */

static bool keep(struct holds *h, const struct object *sandbox, const char *ip)
{
	struct hold *o = map_get(h->all, sandbox->uid);
	unsigned place;

	if (!instance_addr_place(h->spec.instance, ip, &place))
		return false;
	if (o && o->place != place)
		return false; /* it waits for its own address, and this Pod had another */
	if (!o && (h->at[place] || !set_reserved(h, place, true)))
		return false;
	if (!o) {
		make_room(h);
		o = hold_add(h,
			     &(struct hold_record){ .uid = sandbox->uid,
						    .ns = sandbox->ns,
						    .name = sandbox->name,
						    .since = clock_wall() },
			     place);
		h->version++;
		holds_save(h);
	}
	o->taken = false;
	hold_changed(h, o);
	return true;
}

bool holds_keep(struct holds *h, const struct object *pod, const char *ip)
{
	autoptr(object) sandbox = h ? sandbox_of_pod(h, pod) : NULL;

	return sandbox && keep(h, sandbox, ip);
}

void holds_keep_left(struct holds *h, const struct holds_left *l)
{
	autoptr(object) sandbox = h && l->sandbox && l->sandbox_uid && l->ns && l->ip
					  ? sandbox_at(h, l->ns, l->sandbox, l->sandbox_uid)
					  : NULL;

	if (sandbox && tracks(sandbox, l->pod))
		(void)keep(h, sandbox, l->ip);
}

/* The hold of the Sandbox that this Pod belongs to, if it is to run. */
static struct hold *hold_of_pod(struct holds *h, const struct object *pod)
{
	autoptr(object) sandbox = map_len(h->all) ? sandbox_of_pod(h, pod) : NULL;

	return sandbox && !sandbox_view(sandbox)->suspended ? map_get(h->all, sandbox->uid) : NULL;
}

const char *holds_address(struct holds *h, const struct object *pod)
{
	static char ip[16];
	const struct hold *o = h ? hold_of_pod(h, pod) : NULL;

	if (!o)
		return NULL;
	instance_addr_text(h->spec.instance, o->place, ip);
	return ip;
}

static struct hold *hold_at(const struct holds *h, const char *ip)
{
	unsigned place;

	return h && instance_addr_place(h->spec.instance, ip, &place) ? h->at[place] : NULL;
}

bool holds_for_other(struct holds *h, const struct object *pod, const char *ip)
{
	const struct hold *o = hold_at(h, ip);

	return o && o != hold_of_pod(h, pod);
}

void holds_taken(struct holds *h, const struct object *pod, const char *ip)
{
	struct hold *o = h ? hold_of_pod(h, pod) : NULL, *there = hold_at(h, ip);

	if (there && there != o) { /* what runs there is more than what was written down */
		log_warn("the address that is held for a sandbox is in use, letting it go",
			 KV("namespace", there->ns), KV("sandbox", there->name), KV("address", ip),
			 KV("pod", pod->name));
		let_go(h, there);
	}
	if (o && o != there) {
		log_info("a sandbox did not get the address that was held for it",
			 KV("namespace", o->ns), KV("sandbox", o->name), KV("address", ip));
		let_go(h, o);
	} else if (o) {
		o->taken = true;
		o->taken_at = clock_mono();
		hold_changed(h, o);
		if (!timer_armed(h->late))
			timer_set(h->late, READY_MS);
	}
}

void holds_ready(struct holds *h, const struct object *pod)
{
	struct hold *o = h ? hold_of_pod(h, pod) : NULL;

	if (o && o->taken)
		let_go(h, o);
}

static void on_late(void *arg)
{
	struct holds *h = arg;
	usec now = clock_mono(), next = 0;

	map_each(it, h->all) {
		struct hold *o = it.value;
		usec left = o->taken_at + READY_MS * 1000LL - now;

		if (o->taken && left <= 0)
			let_go(h, o);
		else if (o->taken && (!next || left < next))
			next = left;
	}
	if (next)
		timer_set(h->late, (uint64_t)next / 1000 + 1);
}

void holds_each(struct holds *h, void (*fn)(void *arg, struct object *pod), void *arg)
{
	map_each(it, h->all) {
		struct hold *o = it.value;
		autoptr(object) sandbox = o->as_pod ? NULL : sandbox_of(h, o);

		if (sandbox)
			o->as_pod = hold_as_pod(h, o, sandbox);
		if (o->as_pod)
			fn(arg, o->as_pod);
	}
}

/* Changes */

static void sandbox_changed(void *arg, struct object *was, struct object *now)
{
	struct holds *h = arg;
	struct hold *o = map_get(h->all, now ? now->uid : was->uid);

	if (!o)
		return;
	if (now && lives(now))
		hold_changed(h, o);
	else
		let_go(h, o);
}

/* All Sandboxes are known. */
static void on_synced(void *arg)
{
	struct holds *h = arg;

	map_each(it, h->all) {
		struct hold *o = it.value;
		autoptr(object) sandbox = sandbox_of(h, o);

		if (sandbox) {
			hold_changed(h, o);
			continue;
		}
		log_info("the sandbox of an address that was held is gone, letting it go",
			 KV("namespace", o->ns), KV("sandbox", o->name));
		let_go(h, o);
	}
}

static void on_rang(void *arg, unsigned place)
{
	struct holds *h = arg;
	struct hold *o = h->at[place];

	if (!o || (o->told && clock_mono() - o->told < TELL_US))
		return;
	o->told = clock_mono();
	h->spec.knocked(h->spec.arg, o->ns, o->name);
}

/* False: it cannot be held. */
static bool add_known(struct holds *h, const struct hold_record *r)
{
	unsigned place;

	if (str_empty(r->uid) || str_empty(r->ns) || str_empty(r->name) ||
	    map_has(h->all, r->uid) || map_len(h->all) >= h->spec.max ||
	    !instance_addr_place(h->spec.instance, r->address, &place) || place < POOL_FIRST ||
	    place == POOL_BELL || h->at[place] || !set_reserved(h, place, true))
		return false;
	(void)hold_add(h, r, place);
	return true;
}

struct holds *holds_open(const struct holds_spec *spec)
{
	const struct kinds *kinds = client_kinds(spec->client);
	struct holds *h = xnew(struct holds);

	h->spec = *spec;
	if (!h->spec.max)
		h->spec.max = POOL_SIZE / SHARE;
	h->kind_sandbox = kinds_need(kinds, API_SANDBOX, "Sandbox");
	h->kind_pod = kinds_need(kinds, "v1", "Pod");
	h->kind_event = kinds_need(kinds, "v1", "Event");
	h->all = map_new(hold_free);
	list_init(&h->waiting);
	jobs_init(&h->jobs, spec->loop, NULL, NULL);
	h->path = hold_file_path(spec->instance->data_dir);
	h->bell = bell_new(&(struct bell_spec){ .loop = spec->loop,
						.runtime = spec->runtime,
						.instance = spec->instance,
						.rang = on_rang,
						.arg = h });
	h->late = timer_new(spec->loop, on_late, h);
	holds_load(h, add_known);
	return h;
}

void holds_start(struct holds *h)
{
	static const struct client_watch_events events = { .changed = sandbox_changed,
							   .synced = on_synced };
	const struct client_watch_spec spec = { .kind = h->kind_sandbox };

	h->watch = client_watch(h->spec.client, &spec, &events, h);
}

void holds_free(struct holds *h)
{
	if (!h)
		return;
	client_watch_free(h->watch);
	bell_free(h->bell);
	jobs_wait(&h->jobs);
	timer_free(h->late);
	map_free(h->all);
	free(h->path);
	free(h);
}
