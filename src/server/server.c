/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server.h"

#include <assert.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/cay/cay.h"
#include "api/kind.h"
#include "api/object.h"
#include "api/registry.h"
#include "api/view_sandbox.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wall.h"
#include "client/access.h"
#include "client/token.h"
#include "json/json.h"
#include "loop/loop.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "server/admit/admit.h"
#include "server/admit/ranges.h"
#include "server/auth/auth.h"
#include "server/auth/keys.h"
#include "server/auth/rbac.h"
#include "server/call/body.h"
#include "server/call/count.h"
#include "server/call/status.h"
#include "server/data/data.h"
#include "server/http_priv.h"
#include "server/local/local.h"
#include "server/objects/objects.h"
#include "server/pages/pages.h"
#include "server/streams/streams.h"
#include "server/users/users.h"
#include "server/watch/watch.h"
#include "server/write/write.h"
#include "store/store.h"
#include "tls/tls.h"

/*
 * Puts the server's rooms together and starts it: lock the data directory, load keys and store,
 * create what must exist, listen. Each room gets what it needs of the others and nothing else.
 */
enum {
	CALLS_MAX = 4096, /* as many as connections, though one of HTTP/2 may carry many */
};

struct server {
	struct loop *loop;
	char *data_dir, *listen, *address, *node_name;
	int lock_fd;
	size_t max_conns;
	bool store_is_new;
	struct keys keys;
	struct tls_ctx *tls;
	struct http_server *http;
	struct kinds_watch kinds;

	struct objects objects;
	struct ranges ranges;
	struct admit admit;
	struct locals locals;
	struct tokens tokens;
	struct authoriser by;
	struct deferred rights_changed; /* after a write to a role or binding */
	bool aggregates;                /* … to a ClusterRole */
	struct waiters waiters;
	struct watchers watchers;
	struct streams streams;
	struct pages pages;
	struct users users;
	struct front front;
};

static void on_kind(void *arg, const struct kind *k, bool added)
{
	struct server *s = arg;

	if (!added)
		watchers_end(&s->watchers, k);
	objects_kind_changed(&s->objects, k, added);
}

/* Of a credential that could be taken back, and now was. */
static bool is_record(const struct server *s, const struct object *o)
{
	return o->kind == s->objects.secret && str_starts(o->name, CREDENTIAL_PREFIX);
}

static bool changes_rights(struct server *s, struct object *o, bool gone)
{
	if (!o)
		return false; /* of a kind that is not served */
	s->aggregates |= o->kind == s->objects.cluster_role;
	if (o->kind == s->objects.sandbox)
		return !gone && sandbox_view(o)->is_private; /* others leave it */
	return rbac_changed(s->by.rbac, o, gone) || o->kind == s->objects.agent || /* its keys */
	       (gone && (o->kind == s->objects.service_account || is_record(s, o)));
}

/* Rights follow at once, within the write; what depends on them, later in the turn. */
static void on_change(void *arg, const struct store_event *ev)
{
	struct server *s = arg;

	if (changes_rights(s, ev->entry->tag, ev->type == STORE_DELETED))
		deferred_call(&s->rights_changed);
	locals_changed(&s->locals, ev);
}

/* Told when it changes; /readyz and /metrics show it in the meantime. */
static void on_store_state(void *arg)
{
	const struct store *st = ((struct server *)arg)->objects.store;

	switch (store_state(st)) {
	case STORE_READ_ONLY:
		log_error("store is read-only until a commit succeeds",
			  KV("err", store_trouble(st)));
		break;
	case STORE_SHORT:
		log_error("disk is full, only deletions are accepted until there is space",
			  KV("err", store_trouble(st)));
		break;
	case STORE_WRITABLE:
		log_info("store accepts writes again");
		break;
	case STORE_STATE_MAX_:
		break;
	}
}

static struct err *open_objects(struct server *s, const struct server_spec *spec)
{
	autofree char *path = xasprintf("%s/store.db", s->data_dir);
	const struct store_spec file = { .path = path,
					 .reserve = spec->store_reserve,
					 .max_history_bytes = spec->watch_history,
					 .accept_damaged_log = spec->accept_damaged_log };
	struct err *e = spec->new_store ? NULL : data_presence_check(s->data_dir);

	if (!e)
		e = objects_open(&s->objects, s->loop, spec->kinds, &file);
	if (!e)
		s->store_is_new = !store_rev(s->objects.store);
	return e;
}

static struct err *start_objects(struct server *s, const struct server_spec *spec)
{
	struct kinds *kinds = spec->kinds;
	struct err *e;

	s->by.objects = &s->objects;
	s->by.rbac = rbac_new(&s->objects);
	store_on_change(s->objects.store, on_change, s);
	store_on_state(s->objects.store, on_store_state, s);
	if (store_state(s->objects.store) != STORE_WRITABLE)
		on_store_state(s);
	kinds_watch(kinds, &s->kinds);
	s->front.calls.kinds = kinds;
	s->front.calls.store = s->objects.store;
	s->pages.kinds = kinds;
	s->pages.store = s->objects.store;
	tokens_init(&s->tokens, &s->objects, s->keys.sa_key);
	s->pages.issuer = TOKEN_ISSUER;
	e = tokens_set_instance(&s->tokens, s->keys.ca.cert_pem);
	if (!e)
		e = tls_token_keys(s->keys.sa_key, &s->pages.jwks);
	if (e)
		return e;
	definitions_load(&s->admit);
	objects_report_unknown(&s->objects);
	quotas_known(&s->admit);
	addresses_bootstrap(&s->admit);
	e = definitions_bootstrap(&s->admit);
	if (!e)
		e = namespaces_bootstrap(&s->admit);
	if (!e)
		e = runtime_classes_bootstrap(&s->admit, spec->runtime_classes);
	if (!e)
		e = priority_classes_bootstrap(&s->admit);
	if (!e)
		e = roles_bootstrap(&s->admit);
	return e ? e : store_commit_now(s->objects.store); /* the first request finds them */
}

static struct err *make_dir(const char *path)
{
	struct err *e = file_mkdirs(path, 0700);

	if (e)
		return e;
	if (chmod(path, 0700) < 0)
		return err_sys(errno, "set the mode of %s to 0700", path);
	return NULL;
}

static struct err *take_dir(struct server *s)
{
	bool did = false;
	struct err *e = data_lock(s->data_dir, &s->lock_fd);

	if (e)
		return e;
	data_lock_tell(s->lock_fd, "cay serve", s->listen);
	e = data_restore_finish(s->data_dir, &did);
	if (did)
		log_info("completed a restoration that was interrupted",
			 KV("dataDir", s->data_dir));
	return e;
}

static void count(void *arg, struct pages_counts *ret)
{
	const struct server *s = arg;

	*ret = (struct pages_counts){
		.requests = s->front.calls.n_requests,
		.failures = s->front.calls.n_failures,
		.limited = s->front.calls.n_limited,
		.answer_bytes = s->front.calls.budget.total,
		.under_way = s->front.calls.budget.n_calls,
		.writes = s->admit.n_writes,
		.events_encoded = s->watchers.n_encoded,
		.watches_started = s->watchers.n_started,
		.watches = s->watchers.n,
	};
}

static struct err *guard(void *arg, const struct op *op, const struct json *obj,
			 const struct json *old)
{
	struct server *s = arg;
	const struct role_write w = { .user = op->who,
				      .kind = kind_storage(op->kind),
				      .ns = op->ns,
				      .name = op->name,
				      .obj = obj,
				      .old = old };
	const struct agent_write says = {
		.user = op->who, .kind = w.kind, .ns = op->ns, .obj = obj, .old = old
	};
	struct err *e = escalation_check(&s->by, &s->objects, &w);

	if (!e)
		e = agent_write_check(&s->by, &s->objects, &says);
	return e ? e : private_write_check(&s->by, &says);
}

/* Of "system:serviceaccount:NAMESPACE:NAME". */
static const char *account_name(const char *user)
{
	const char *colon = strrchr(user, ':');

	return colon ? colon + 1 : user;
}

/* One that is gone has no rights, whatever it has open. ns NULL: it is no account. */
static struct err *account_gone(const struct server *s, const char *user, const char *ns)
{
	const struct objects *os = &s->objects;

	if (!ns || objects_find(os, os->service_account, ns, account_name(user)))
		return NULL;
	return err_new(ERR_UNAUTHENTICATED, "the service account no longer exists");
}

/* The credential that it was opened with is still valid. */
static bool still_known(void *arg, const struct call *c)
{
	struct server *s = arg;

	if (call_end(c) && call_end(c) <= clock_wall() / 1000000)
		return !wall_stands("open-watches");
	ends_name(&s->front.calls.ends, call_end(c));
	return true;
}

static void on_end(void *arg)
{
	struct server *s = arg;

	watchers_recheck(&s->watchers, still_known, s);
	streams_recheck(&s->streams, still_known, s);
}

/* What is open stays so only as long as it could be opened again. */
static bool still_may(void *arg, const struct call *c)
{
	struct server *s = arg;
	struct err *e = account_gone(s, c->user.name, c->user.sa_ns);
	bool may;

	if (!e)
		e = credential_check(&s->objects, c->user.groups);
	if (!e)
		e = authorise(&s->by, c);
	may = !e || !wall_stands("open-watches");
	err_free(e);
	return may;
}

static void on_rights_changed(void *arg)
{
	struct server *s = arg;

	if (s->aggregates)
		roles_aggregate(&s->admit);
	s->aggregates = false;
	watchers_recheck(&s->watchers, still_may, s);
	streams_recheck(&s->streams, still_may, s);
	deferred_cancel(&s->rights_changed); /* what that wrote needs no second look */
}

/* A Service leads to Pods that the call was not authorised for: what is Private is not woken for
 * others. Agents are refused by the gate, when they go in. */
static struct err *may_wake(void *arg, const struct call *c, const char *pod)
{
	const struct server *s = arg;

	if (str_in(GROUP_OF_AGENTS, c->user.groups))
		return NULL;
	return private_check_pod(&s->by, &c->user, c->route.ns, pod);
}

static struct server *server_new(struct loop *l, const struct server_spec *spec)
{
	struct server *s = xnew(struct server);

	s->loop = l;
	s->data_dir = xstrdup(spec->data_dir);
	s->listen = xstrdup(spec->listen);
	s->node_name = xstrdup(spec->node_name);
	s->lock_fd = -1;
	s->max_conns = spec->max_conns;
	s->kinds = (struct kinds_watch){ .changed = on_kind, .arg = s };
	s->admit = (struct admit){ .objects = &s->objects,
				   .node_name = s->node_name,
				   .ranges = &s->ranges,
				   .guard = guard,
				   .guard_arg = s };
	s->users = (struct users){ .admit = &s->admit, .by = &s->by, .keys = &s->keys };
	s->pages = (struct pages){ .count = count, .arg = s };
	deferred_init(&s->rights_changed, l, on_rights_changed, s);
	s->admit.quotas = quotas_new(&s->admit, l);
	locals_init(&s->locals, &s->admit, l);
	waiters_init(&s->waiters, &s->objects, l);
	watchers_init(&s->watchers, &s->objects, l);
	streams_init(&s->streams, &s->objects, l);
	s->streams.may_wake = may_wake;
	s->streams.may_wake_arg = s;
	s->front = (struct front){
		.tokens = &s->tokens,
		.by = &s->by,
		.objects = &s->objects,
		.admit = &s->admit,
		.waiters = &s->waiters,
		.watchers = &s->watchers,
		.streams = &s->streams,
		.pages = &s->pages,
		.users = &s->users,
	};
	s->front.calls.counts = call_counts_new();
	s->pages.calls = s->front.calls.counts;
	slices_init(&s->front.calls.slices, l);
	ends_init(&s->front.calls.ends, l, on_end, s);
	effort_init(&s->front.calls.effort);
	budget_init(&s->front.calls.budget, spec->max_conns ? spec->max_conns : CALLS_MAX);
	return s;
}

struct err *server_open(struct loop *l, const struct server_spec *spec, struct server **ret)
{
	autoptr(server) s = server_new(l, spec);
	struct tls_server_spec tls;
	struct keys_spec names;
	struct err *e;

	e = grants_read(&s->by.grants, spec->grants);
	if (!e)
		e = ranges_init(&s->ranges, str_or(spec->service_cidr, SERVER_SERVICE_CIDR));
	if (!e)
		e = make_dir(s->data_dir);
	if (!e)
		e = take_dir(s);
	if (!e)
		e = open_objects(s, spec);
	if (e)
		return e;
	names = (struct keys_spec){ .listen = s->listen,
				    .sans = spec->sans,
				    .make = s->store_is_new || spec->new_keys };
	e = keys_load(&s->keys, s->data_dir, &names);
	if (e)
		return e;
	tls = (struct tls_server_spec){ .cert_pem = s->keys.server.cert_pem,
					.key_pem = s->keys.server.key_pem,
					.client_ca_pem = s->keys.ca.cert_pem,
					.http2 = true };
	e = tls_server_ctx(&tls, &s->tls);
	if (!e)
		e = start_objects(s, spec);
	if (e)
		return e;
	*ret = take(s);
	return NULL;
}

static struct stream *wrap(void *arg, int fd)
{
	struct server *s = arg;

	return tls_accept(s->tls, fd);
}

struct err *server_listen(struct server *s)
{
	const struct http_server_spec spec = {
		.limits = { .max_body = BODY_MAX,
			    .max_out = ANSWER_OUT_MAX,
			    .max_conns = s->max_conns },
		.handler = &front_handler,
		.arg = &s->front,
		.wrap = wrap,
		.wrap_arg = s,
		.http2 = &http2_protocol,
	};
	char address[128];
	struct err *e;
	int fd = -1;

	/* Readers see what is committed: the first of them finds what was written at the start. On
	 * a full disk it is committed later. */
	err_free(store_commit_now(s->objects.store));
	e = net_listen(s->listen, &fd);
	if (e)
		return e;
	e = net_local_addr(fd, address, sizeof(address));
	if (e) {
		(void)close(fd);
		return e;
	}
	e = http_server_start(s->loop, fd, &spec, &s->http);
	if (e)
		return err_wrap(e, "serve at %s", address);
	s->address = xstrdup(address);
	data_lock_tell(s->lock_fd, "cay serve", s->address);
	s->pages.address = s->address;
	s->pages.ready = true;
	log_info("API server listens", KV("address", s->address));
	return NULL;
}

void server_set_tracer(struct server *s, struct tracer *t)
{
	s->front.calls.tracer = t;
}

void server_add_metrics(struct server *s, void (*write)(void *arg, struct buf *b), void *arg)
{
	assert(s->pages.n_metrics < PAGES_METRICS_MAX);
	s->pages.metrics[s->pages.n_metrics++] = (struct pages_metrics){ write, arg };
}

void server_set_access(struct server *s, struct access *a)
{
	streams_set_access(&s->streams, a);
	s->front.calls.access = a;
}

void server_set_audit(struct server *s, struct audit *a)
{
	s->front.calls.audit = a;
}

void server_set_wake(struct server *s, bool (*wake)(void *arg, const char *ns, const char *pod),
		     void *arg)
{
	s->streams.wake = wake;
	s->streams.wake_arg = arg;
}

static struct route entry_route(const struct server *s, const struct server_entry *to)
{
	return (struct route){ .resource = true,
			       .verb = VERB_CREATE,
			       .group = "",
			       .version = "v1",
			       .plural = "pods",
			       .ns = to->ns,
			       .name = to->pod,
			       .sub = to->sub,
			       .path = "",
			       .kind = s->objects.pod };
}

struct err *server_may_enter(struct server *s, const char *authorization,
			     const struct server_entry *to, char **ret_user)
{
	const struct route route = entry_route(s, to);

	return header_may(&s->tokens, &s->by, authorization, &route, ret_user);
}

void server_set_opinion(struct server *s, server_opinion fn, void *arg)
{
	s->by.opinion = fn;
	s->by.opinion_arg = arg;
}

const struct tls_pair *server_ca(const struct server *s)
{
	return &s->keys.ca;
}

struct token_issuer server_token_issuer(struct server *s)
{
	return (struct token_issuer){ .issue = token_for_pod, .arg = &s->tokens };
}

struct err *server_sign_for_others(struct server *s, const char *claims, char **ret)
{
	return tls_token_sign_for_others(s->keys.sa_key, claims, ret);
}

struct err *server_page_token(struct server *s, const struct access_target *who, int64_t expires,
			      char **ret)
{
	return page_token_sign(s->keys.sa_key, who, expires, ret);
}

const char *server_no_page(const struct access_target *who)
{
	return page_refusal(who);
}

bool server_shows_group(const char *group)
{
	return !group_is_bond(group);
}

const char *server_token_keys(const struct server *s)
{
	return s->pages.jwks;
}

bool server_is_audience(const struct server *s, const char *audience)
{
	autofree char *address = xasprintf("https://%s", server_address(s));

	return str_eq(audience, TOKEN_ISSUER) || str_eq(audience, s->tokens.agents.audience) ||
	       str_eq(audience, address);
}

const char *server_ca_cert(const struct server *s)
{
	return s->keys.ca.cert_pem;
}

static enum verb verb_of(const char *name)
{
	unsigned v = 0;

	while (v < VERB_MAX_ && !str_eq(verb_name(v), name))
		v++;
	assert(v < VERB_MAX_);
	return v;
}

static struct user user_of(const struct access_target *who)
{
	static const char *const none[] = { NULL };

	return (struct user){ .name = who->user,
			      .groups = who->groups ? who->groups : none,
			      .sa_ns = who->account_ns };
}

struct err *server_may_pass(struct server *s, const struct access_target *who)
{
	const struct user u = user_of(who);

	return private_check_pod(&s->by, &u, str_or(who->ns, ""), str_or(who->pod, ""));
}

struct err *server_may_claim(struct server *s, const struct access_target *who, const char *ns,
			     const char *pool)
{
	const struct user u = user_of(who);

	return private_check_claim(&s->by, &u, ns, pool);
}

struct err *server_user_may(struct server *s, const struct access_target *who,
			    const struct server_act *act)
{
	const struct call c = {
		.route = { .resource = true,
			   .verb = verb_of(act->verb),
			   .group = act->group,
			   .version = "",
			   .plural = act->plural,
			   .ns = act->ns,
			   .name = str_or(act->name, ""),
			   .sub = str_or(act->sub, ""),
			   .path = "" },
		.user = user_of(who),
	};

	struct err *e = account_gone(s, who->user, who->account_ns);

	if (!e)
		e = credential_check(&s->objects, c.user.groups);
	return e ? e : authorise(&s->by, &c);
}

struct err *server_user_may_get(struct server *s, const struct access_target *who, const char *path)
{
	const struct call c = {
		.method = "GET",
		.route = { .group = "",
			   .version = "",
			   .plural = "",
			   .ns = "",
			   .name = "",
			   .sub = "",
			   .path = path },
		.user = user_of(who),
	};
	struct err *e = account_gone(s, who->user, who->account_ns);

	if (!e)
		e = credential_check(&s->objects, c.user.groups);
	return e ? e : authorise(&s->by, &c);
}

void server_refuse(struct http_request *req, struct err *e)
{
	server_refuse_with(req, e, &(struct http_headers){ 0 });
}

int server_status(const struct err *e)
{
	return status_of(err_code(e));
}

void server_refuse_with(struct http_request *req, struct err *e, const struct http_headers *more)
{
	autoptr(json_doc) d = status_failure(e, &(struct status_about){ 0 });
	struct http_headers h = { 0 };
	autobuf b = { 0 };

	for (size_t i = 0; i < more->n; i++)
		http_headers_add(&h, more->list[i].name, more->list[i].value);
	if (status_retries(err_code(e)) && !http_headers_get(&h, "Retry-After"))
		http_headers_add(&h, "Retry-After", "1");
	json_write(json_root(d), &b);
	http_respond(req, status_of(err_code(e)), &h,
		     (struct http_body){ "application/json", buf_head(&b), b.len });
	http_headers_done(&h);
	err_free(e);
}

void server_add_endpoint(struct server *s, const struct server_endpoint *e)
{
	struct front *f = &s->front;

	assert(f->n_endpoints < SERVER_ENDPOINTS_MAX);
	f->endpoints[f->n_endpoints++] = *e;
}

void server_del_endpoint(struct server *s, const char *path)
{
	struct front *f = &s->front;

	for (size_t i = 0; i < f->n_endpoints; i++)
		if (str_eq(f->endpoints[i].path, path))
			f->endpoints[i--] = f->endpoints[--f->n_endpoints];
}

const char *server_address(const struct server *s)
{
	return s->address ? s->address : s->listen;
}

struct err *server_write_kubeconfig(struct server *s)
{
	return keys_write_kubeconfig(&s->keys, s->data_dir, server_address(s));
}

struct client *server_client(struct server *s, const char *user)
{
	return local_client(&s->locals, user);
}

struct store *server_store(struct server *s)
{
	return s->objects.store;
}

bool server_store_is_new(const struct server *s)
{
	return s->store_is_new;
}

void server_free(struct server *s)
{
	if (!s)
		return;
	kinds_unwatch(&s->kinds);
	waiters_done(&s->waiters);
	http_server_free(s->http); /* its requests end, watches among them */
	watchers_done(&s->watchers);
	streams_done(&s->streams);
	quotas_free(s->admit.quotas);
	objects_done(&s->objects); /* commits; calls that wait for that are released */
	tokens_done(&s->tokens);
	deferred_cancel(&s->rights_changed);
	grants_done(&s->by.grants);
	rbac_free(s->by.rbac);
	ranges_done(&s->ranges);
	pages_done(&s->pages);
	slices_done(&s->front.calls.slices);
	budget_done(&s->front.calls.budget);
	effort_done(&s->front.calls.effort);
	ends_done(&s->front.calls.ends);
	call_counts_free(s->front.calls.counts);
	tls_ctx_unref(s->tls);
	keys_done(&s->keys);
	free(s->data_dir);
	free(s->listen);
	free(s->address);
	free(s->node_name);
	if (s->lock_fd >= 0)
		(void)close(s->lock_fd); /* last: now another server may start */
	free(s);
}
