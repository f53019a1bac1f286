/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <fcntl.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/file.h"
#include "kinds.h"
#include "net/conn.h"
#include "net/stream.h"
#include "tls/tls.h"

struct err *fixture_open(struct fixture *f)
{
	struct server_spec spec = { .kinds = test_kinds(),
				    .data_dir = f->dir,
				    .listen = "127.0.0.1:0",
				    .node_name = f->node_name,
				    .grants = f->grants,
				    .service_cidr = f->service_cidr,
				    .store_reserve = f->store_reserve };
	struct err *e = server_open(f->loop, &spec, &f->server);

	if (!e)
		f->client = server_client(f->server, "test");
	return e;
}

void fixture_init(struct fixture *f)
{
	*f = (struct fixture){ .headers = "" };
	works(loop_new(&f->loop));
	(void)snprintf(f->dir, sizeof(f->dir), "/tmp/cay-server-XXXXXX");
	is_true(mkdtemp(f->dir) != NULL);
	works(fixture_open(f));
}

void fixture_listen(struct fixture *f)
{
	works(server_listen(f->server));
}

void fixture_close(struct fixture *f)
{
	client_free(take(f->client));
	server_free(take(f->server));
}

void fixture_done(struct fixture *f)
{
	fixture_close(f);
	free(f->token);
	(void)loop_turn(f->loop, 0);
	loop_free(f->loop);
	works(file_remove_tree(AT_FDCWD, f->dir));
}

/* Over HTTPS */

struct stream_test {
	struct fixture *f;
	struct conn *conn;
	struct buf got;
	bool closed;
};

static void on_data(void *arg, struct buf *in)
{
	struct stream_test *s = arg;

	buf_add(&s->got, buf_head(in), in->len);
	buf_eat(in, in->len);
}

static void on_closed(void *arg, const struct err *e)
{
	struct stream_test *s = arg;

	(void)e;
	s->closed = true;
}

static char *read_pem(const struct fixture *f, const char *name)
{
	autofree char *path = xasprintf("%s/%s", f->dir, name);
	char *text;
	size_t len;

	works(file_read(AT_FDCWD, path, 65536, &text, &len));
	return text;
}

static struct tls_ctx *client_ctx(const struct fixture *f)
{
	autofree char *ca = read_pem(f, "ca.crt");
	autofree char *cert = read_pem(f, "admin.crt");
	autofree char *key = read_pem(f, "admin.key");
	bool with_cert = !f->anonymous && !f->token;
	struct tls_client_spec spec = { .ca_pem = ca,
					.cert_pem = with_cert ? cert : NULL,
					.key_pem = with_cert ? key : NULL };
	struct tls_ctx *ctx;

	works(tls_client_ctx(&spec, &ctx));
	return ctx;
}

struct stream_test *stream_open(struct fixture *f, const char *method, const char *path,
				const char *body)
{
	static const struct conn_events ev = { .data = on_data, .closed = on_closed };
	autoptr(tls_ctx) ctx = client_ctx(f);
	struct stream_test *s = xnew(struct stream_test);
	autobuf b = { 0 };
	int fd;

	s->f = f;
	works(net_connect(server_address(f->server), &fd));
	s->conn = conn_new(f->loop, tls_connect(ctx, fd, "127.0.0.1"), &ev, s);
	buf_printf(&b, "%s %s HTTP/1.1\r\nHost: cay\r\n%s", method, path, f->headers);
	if (f->token)
		buf_printf(&b, "Authorization: Bearer %s\r\n", f->token);
	if (body)
		buf_printf(&b, "Content-Length: %zu\r\n", strlen(body));
	buf_add_str(&b, "Connection: close\r\n\r\n");
	if (body)
		buf_add_str(&b, body);
	conn_write(s->conn, buf_head(&b), b.len);
	return s;
}

bool stream_until(struct stream_test *s, const char *text)
{
	usec end = clock_mono() + 60000000;

	while (!strstr(s->got.len ? buf_str(&s->got) : "", text) && !s->closed &&
	       clock_mono() < end)
		(void)loop_turn(s->f->loop, 100);
	return strstr(s->got.len ? buf_str(&s->got) : "", text) != NULL;
}

void stream_stall(struct stream_test *s)
{
	conn_pause(s->conn, true);
}

const char *stream_text(struct stream_test *s)
{
	return s->got.len ? buf_str(&s->got) : "";
}

bool stream_ended(struct stream_test *s)
{
	usec end = clock_mono() + 60000000;

	while (!s->closed && clock_mono() < end)
		(void)loop_turn(s->f->loop, 100);
	return s->closed;
}

void stream_test_free(struct stream_test *s)
{
	conn_free(s->conn);
	buf_done(&s->got);
	free(s);
}

static void dechunk(const char *p, struct buf *out)
{
	for (;;) {
		char *end;
		unsigned long len = strtoul(p, &end, 16);

		if (!len || end[0] != '\r')
			return;
		buf_add(out, end + 2, len);
		p = end + 2 + len + 2;
	}
}

struct answer ask(struct fixture *f, const char *method, const char *path, const char *body)
{
	return stream_answer(stream_open(f, method, path, body));
}

struct answer stream_answer(struct stream_test *s)
{
	struct answer a = { 0 };
	const char *end;
	autobuf b = { 0 };

	is_true(stream_ended(s));
	end = strstr(stream_text(s), "\r\n\r\n");
	is_true(end != NULL);
	a.head = xstrndup(stream_text(s), (size_t)(end - stream_text(s)) + 2);
	a.status = (int)strtoul(a.head + strlen("HTTP/1.1 "), NULL, 10);
	if (strstr(a.head, "chunked"))
		dechunk(end + 4, &b);
	else
		buf_add_str(&b, end + 4);
	a.text = buf_steal(&b, NULL);
	err_free(json_parse(a.text, strlen(a.text), NULL, &a.doc));
	stream_test_free(s);
	return a;
}

void answer_done(struct answer *a)
{
	free(a->head);
	free(a->text);
	json_doc_free(a->doc);
}

const char *at(const struct answer *a, const char *path)
{
	return json_str(json_at_path(json_root(a->doc), path));
}

int64_t int_at(const struct answer *a, const char *path)
{
	return json_int(json_at_path(json_root(a->doc), path), -1);
}

/* In process */

struct json_doc *parse(const char *text)
{
	autofree char *copy = xstrdup(text);
	struct json_doc *d = NULL;

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	works(json_parse(copy, strlen(copy), NULL, &d));
	return d;
}

static void on_done(struct client_write *w, struct err *e, struct object *obj)
{
	struct outcome *o = container_of(w, struct outcome, write);

	o->e = e;
	o->obj = object_ref(obj);
}

void outcome_init(struct outcome *o)
{
	*o = (struct outcome){ .write.done = on_done };
}

static struct err *outcome_err(struct outcome *o, struct object **ret)
{
	if (ret)
		*ret = o->obj;
	else
		object_unref(o->obj);
	return o->e;
}

struct err *make(struct fixture *f, const struct kind *k, const char *ns, const char *text,
		 struct object **ret)
{
	struct outcome o = { .write.done = on_done };

	client_create(f->client, &(struct client_ref){ k, ns }, parse(text), &o.write);
	return outcome_err(&o, ret);
}

struct err *merge(struct fixture *f, const struct client_ref *to, const char *text)
{
	struct outcome o = { .write.done = on_done };

	client_patch(f->client, to, PATCH_MERGE, parse(text), &o.write);
	return outcome_err(&o, NULL);
}

struct err *drop(struct fixture *f, const struct kind *k, const char *ns, const char *name,
		 const struct client_delete_spec *spec)
{
	struct outcome o = { .write.done = on_done };

	client_delete(f->client, &(struct client_ref){ k, ns, name }, spec, &o.write);
	return outcome_err(&o, NULL);
}

struct object *look(struct fixture *f, const struct kind *k, const char *ns, const char *name)
{
	return client_get(f->client, k, ns, name);
}

struct sync {
	struct client_write write;
	bool done;
};

static void on_synced(struct client_write *w, struct err *e, struct object *obj unused)
{
	works(e);
	container_of(w, struct sync, write)->done = true;
}

void settle(struct fixture *f)
{
	struct sync sync = { .write.done = on_synced };

	(void)loop_turn(f->loop, 0);
	client_sync(f->client, &sync.write);
	while (!sync.done)
		(void)loop_turn(f->loop, 100);
}
