/* SPDX-License-Identifier: Apache-2.0 */
#include "server/server.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/log.h"
#include "net/http_server.h"
#include "net/stream.h"
#include "server/pods/pods_priv.h"
#include "server/server_priv.h"

/*
 * The server's life: lock the data directory, load keys and store, make what must exist, listen.
 */
enum {
	HISTORY_BYTES = 16 << 20,
};

/* Everybody in this process who follows objects hears of a change here, within the write. */
static void on_change(void *arg, const struct store_event *ev)
{
	struct server *s = arg;

	locals_changed(s, ev);
}

static void tag_free(void *tag)
{
	object_unref(tag);
}

static struct err *open_store(struct server *s)
{
	autofree char *path = xasprintf("%s/store.db", s->data_dir);
	struct store_spec spec = {
		.path = path,
		.max_history_bytes = HISTORY_BYTES,
		.decode = decode_value,
		.tag_free = tag_free,
		.arg = s,
	};
	struct err *e = store_open(s->loop, &spec, &s->store);

	if (e)
		return e;
	unknown_report(s);
	store_on_change(s->store, on_change, s);
	kinds_watch(s->registry, &s->registry_watch);
	e = namespaces_bootstrap(s);
	return e ? e : store_commit_now(s->store); /* the first request finds them */
}

static struct err *make_dir(const char *path)
{
	struct err *e = file_mkdirs(path, 0700);

	if (e)
		return e;
	if (chmod(path, 0700) < 0)
		return err_sys(errno, "close %s to others", path);
	return NULL;
}

static void find_kinds(struct server *s)
{
	const struct kinds *ks = s->registry;

	s->kinds = (struct server_kinds){
		.namespace = kinds_need(ks, "v1", "Namespace"),
		.service_account = kinds_need(ks, "v1", "ServiceAccount"),
		.pod = kinds_need(ks, "v1", "Pod"),
		.event = kinds_need(ks, "v1", "Event"),
	};
}

static struct server *server_new(struct loop *l, const struct server_spec *spec)
{
	struct server *s = xnew(struct server);

	s->loop = l;
	s->data_dir = xstrdup(spec->data_dir);
	s->listen = xstrdup(spec->listen);
	s->node_name = xstrdup(spec->node_name);
	s->lock_fd = -1;
	s->registry = spec->kinds;
	s->registry_watch = (struct kinds_watch){ .changed = kind_changed, .arg = s };
	find_kinds(s);
	list_init(&s->locals);
	list_init(&s->watchers);
	list_init(&s->waiters);
	list_init(&s->streams);
	s->user_watches = map_new(NULL);
	s->tokens = tokens_new(s);
	return s;
}

struct err *server_open(struct loop *l, const struct server_spec *spec, struct server **ret)
{
	autoptr(server) s = server_new(l, spec);
	struct tls_server_spec tls;
	struct err *e;

	e = make_dir(s->data_dir);
	if (!e)
		e = lock_take(s->data_dir, s->listen, &s->lock_fd);
	if (!e)
		e = keys_load(&s->keys, s->data_dir, s->listen, spec->sans);
	if (e)
		return e;
	tls = (struct tls_server_spec){ .cert_pem = s->keys.server.cert_pem,
					.key_pem = s->keys.server.key_pem,
					.client_ca_pem = s->keys.ca.cert_pem };
	e = tls_server_ctx(&tls, &s->tls);
	if (!e)
		e = open_store(s);
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
		.limits = { .max_body = BODY_MAX },
		.handler = &server_http_handler,
		.arg = s,
		.wrap = wrap,
		.wrap_arg = s,
	};
	char address[128];
	struct err *e;
	int fd = -1;

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
	lock_tell(s->lock_fd, s->address);
	s->ready = true;
	log_info("API server listens", KV("address", s->address));
	return NULL;
}

void server_set_access(struct server *s, struct access *a)
{
	if (a != s->access)
		pod_streams_cut(s); /* they are sessions of the old one */
	s->access = a;
}

const char *server_address(const struct server *s)
{
	return s->address ? s->address : s->listen;
}

struct err *server_write_kubeconfig(struct server *s)
{
	return keys_write_kubeconfig(&s->keys, s->data_dir, server_address(s));
}

struct store *server_store(struct server *s)
{
	return s->store;
}

void server_free(struct server *s)
{
	if (!s)
		return;
	kinds_unwatch(&s->registry_watch);
	waiters_free(s);
	http_server_free(s->http); /* its requests end, watches among them */
	watchers_free(s);
	pod_streams_cut(s);
	store_free(s->store); /* commits; calls that wait for that are released */
	tokens_free(s->tokens);
	map_free(s->user_watches);
	map_free(s->documents);
	tls_ctx_unref(s->tls);
	keys_done(&s->keys);
	free(s->data_dir);
	free(s->listen);
	free(s->address);
	free(s->node_name);
	if (s->lock_fd >= 0)
		(void)close(s->lock_fd); /* last: the next one may come now */
	free(s);
}
