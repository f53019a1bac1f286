/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include "base/buf.h"
#include "kinds.h"
#include "net/stream.h"
#include "tls/tls.h"

static void on_ended(void *owner)
{
	((struct ask *)owner)->r = NULL;
}

static void on_body(void *owner, unused struct http_request *r, const char *data, size_t len)
{
	struct ask *k = owner;

	k->body = xstrndup(data, len);
	list_add_tail(&k->api->asks, &k->link);
	k->api->n_asks++;
}

static void on_head(void *arg, struct http_request *r)
{
	struct ask *k = xnew(struct ask);

	k->api = arg;
	k->r = r;
	list_init(&k->link);
	k->method = xstrdup(http_request_method(r));
	k->target = xstrdup(http_request_target(r));
	k->auth = xstrdup(http_request_header(r, "Authorization"));
	k->type = xstrdup(http_request_header(r, "Content-Type"));
	http_request_set_owner(r, k, on_ended);
	http_request_buffer(r, 0, on_body);
}

static struct stream *wrap(void *arg, int fd)
{
	return tls_accept(arg, fd);
}

void api_start(struct api *a)
{
	static const struct http_handler handler = { .head = on_head };
	static const char *const sans[] = { "127.0.0.1", NULL };
	struct http_server_spec spec = { .handler = &handler, .arg = a, .wrap = wrap };
	struct tls_pair ca = { 0 }, pair = { 0 };
	char addr[64];
	int fd;

	*a = (struct api){ 0 };
	list_init(&a->asks);
	works(loop_new(&a->l));
	works(tls_make_ca("test", 3600 * 1000000ll, &ca));
	works(tls_make_cert(&ca,
			    &(struct tls_cert_spec){ .common_name = "server",
						     .sans = sans,
						     .server = true,
						     .valid_for = 3600 * 1000000ll },
			    &pair));
	works(tls_server_ctx(
		&(struct tls_server_spec){ .cert_pem = pair.cert_pem, .key_pem = pair.key_pem },
		&a->tls));
	works(net_listen("127.0.0.1:0", &fd));
	works(net_local_addr(fd, addr, sizeof(addr)));
	spec.wrap_arg = a->tls;
	works(http_server_start(a->l, fd, &spec, &a->server));
	a->config.server = xasprintf("https://%s", addr);
	a->config.ca_pem = xstrdup(ca.cert_pem);
	tls_pair_done(&ca);
	tls_pair_done(&pair);
}

void api_client(struct api *a)
{
	works(client_http_new(a->l, &a->config, "test", test_kinds(), &a->client));
}

void api_stop(struct api *a)
{
	struct ask *k, *next;

	client_free(a->client);
	http_server_free(a->server);
	list_each_safe(k, next, &a->asks, link) {
		free(k->method);
		free(k->target);
		free(k->auth);
		free(k->type);
		free(k->body);
		free(k);
	}
	kubeconfig_done(&a->config);
	tls_ctx_unref(a->tls);
	api_settle(a);
	loop_free(a->l);
}

void api_settle(struct api *a)
{
	for (int i = 0; i < 20; i++)
		loop_turn(a->l, 1);
}

static struct ask *find(struct api *a, const char *part)
{
	struct ask *k;

	list_each(k, &a->asks, link) {
		autofree char *line = xasprintf("%s %s", k->method, k->target);

		if (!k->taken && strstr(line, part))
			return k;
	}
	return NULL;
}

bool api_has(struct api *a, const char *part)
{
	return find(a, part);
}

struct ask *api_next(struct api *a, const char *part)
{
	struct ask *k;

	until(a->l, (k = find(a, part)));
	k->taken = true;
	return k;
}

static printf_like(2, 0) void format(struct buf *b, const char *fmt, va_list ap)
{
	buf_vprintf(b, fmt, ap);
}

void ask_answer(struct ask *k, int status, const char *fmt, ...)
{
	autobuf b = { 0 };
	va_list ap;

	va_start(ap, fmt);
	format(&b, fmt, ap);
	va_end(ap);
	assert_non_null(k->r);
	http_respond(k->r, status, NULL, "application/json", buf_str(&b), b.len);
}

void ask_stream(struct ask *k)
{
	assert_non_null(k->r);
	http_respond_start(k->r, 200, NULL, -1);
}

void ask_send(struct ask *k, const char *fmt, ...)
{
	autobuf b = { 0 };
	va_list ap;

	va_start(ap, fmt);
	format(&b, fmt, ap);
	va_end(ap);
	assert_non_null(k->r);
	http_respond_write(k->r, buf_str(&b), b.len);
}

void ask_end(struct ask *k)
{
	http_respond_end(k->r);
}

void ask_cut(struct ask *k)
{
	http_respond_abort(k->r);
}

static void on_changed(void *arg, struct object *was, struct object *now)
{
	struct diary *d = arg;

	buf_printf(&d->text, "%s%s ",
		   now && was ? "~"
		   : now      ? "+"
			      : "-",
		   now ? now->name : was->name);
}

static void on_synced(void *arg)
{
	buf_add_str(&((struct diary *)arg)->text, "S ");
}

const struct client_watch_events diary_events = { on_changed, on_synced };

struct diary_write {
	struct client_write write;
	struct diary *diary;
	struct diary_write *next;
};

static void on_done(struct client_write *w, struct err *e, struct object *o)
{
	struct diary *d = container_of(w, struct diary_write, write)->diary;

	buf_add_str(&d->text, "D ");
	err_free(d->e);
	object_unref(d->o);
	d->e = e;
	d->o = object_ref(o);
	d->n_done++;
}

struct client_write *diary_write(struct diary *d)
{
	struct diary_write *w = xnew(struct diary_write);

	w->write.done = on_done;
	w->diary = d;
	w->next = d->writes;
	d->writes = w;
	return &w->write;
}

void diary_done(struct diary *d)
{
	while (d->writes) {
		struct diary_write *w = d->writes;

		d->writes = w->next;
		client_cancel(&w->write);
		free(w);
	}
	buf_done(&d->text);
	err_free(d->e);
	object_unref(d->o);
}
