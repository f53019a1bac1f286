/* SPDX-License-Identifier: Apache-2.0 */
#include "client/post.h"

#include <assert.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"
#include "client/http.h"
#include "client/http_priv.h"

enum {
	POST_MS = 10000,
};

struct post {
	struct transport *t;
	char *path;
	struct exchange *x; /* NULL: nothing is under way */
	void (*done)(void *arg, int status);
	void *arg;
};

struct err *post_new(struct loop *l, const char *url, struct post **ret)
{
	const char *host = str_starts(url, "http://")    ? url + 7
			   : str_starts(url, "https://") ? url + 8
							 : NULL;
	struct kubeconfig to = { 0 };
	autofree char *server = NULL;
	struct post *p;
	struct err *e;
	size_t len;

	if (!host || !*host || *host == '/')
		return err_new(ERR_INVALID, "%s: a URL begins with http://HOST or https://HOST",
			       url);
	len = (size_t)(host - url) + strcspn(host, "/");
	server = xstrndup(url, len);
	to.server = server;
	p = xnew(struct post);
	e = transport_new(l, &to, NULL, &p->t);
	if (e) {
		free(p);
		return e;
	}
	p->path = xstrdup(url[len] ? url + len : "/");
	*ret = p;
	return NULL;
}

/* The answer is not kept, however long it is. */
static void on_data(unused void *arg, struct buf *in)
{
	buf_eat(in, in->len);
}

static void on_done(void *arg, struct err *e, const struct reply *r)
{
	struct post *p = arg;
	int status = r ? r->status : 0;

	err_free(e);
	p->x = NULL;
	p->done(p->arg, status);
}

void post_send(struct post *p, char *body, size_t len, void (*done)(void *arg, int status),
	       void *arg)
{
	assert(!p->x);
	p->done = done;
	p->arg = arg;
	p->x = exchange_start(p->t, &(struct exchange_spec){ .method = "POST",
							     .path = p->path,
							     .label = "POST spans",
							     .body = body,
							     .body_len = len,
							     .timeout_ms = POST_MS,
							     .data = on_data,
							     .done = on_done,
							     .arg = p });
}

void post_free(struct post *p)
{
	if (!p)
		return;
	if (p->x)
		exchange_cancel(p->x);
	transport_free(p->t);
	free(p->path);
	free(p);
}
