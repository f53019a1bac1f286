/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/str.h"
#include "net/http_proxy.h"
#include "net/http_server.h"
#include "net/websocket.h"
#include "server/auth/auth_priv.h"
#include "server/call/call.h"
#include "tls/tls.h"

/*
 * Who asks: a client certificate of our CA (CN is the user, every O a group), or a bearer token.
 * A credential that is not valid is 401, whatever else was sent; no credential is anonymous.
 *
 * A page in a browser can set no header of a WebSocket but the names of its protocols. There the
 * token is one of them, beside the one that is meant, as in Kubernetes.
 *
 * A browser shows a certificate that it has with every request to this host, whichever page causes
 * it, and no CORS holds back a WebSocket. So a certificate counts for our own pages alone, and for
 * clients that are no browsers. A token is shown by whoever knows it, and always counts.
 */
static const char *const anonymous_groups[] = { "system:unauthenticated", NULL };
static const struct user anonymous = {
	.name = "system:anonymous",
	.uid = "",
	.groups = anonymous_groups,
};

static struct err *unauthorized(struct err *why)
{
	err_free(why); /* somebody who guesses must not learn why */
	return err_new(ERR_UNAUTHENTICATED, "Unauthorized");
}

/* Some clients that are no browsers speak of http although it is TLS. Where a port is named, no
 * page can have been served so: it is ours. */
static bool is_own(struct http_request *req)
{
	const char *host = str_or(http_request_header(req, "Host"), "");
	const char *bracket = strrchr(host, ']');

	return http_request_is_own(req, "https") ||
	       (strchr(bracket ? bracket : host, ':') && http_request_is_own(req, "http"));
}

static void by_certificate(struct call *c)
{
	const struct tls_peer *peer = tls_peer_of(http_request_conn_stream(c->req));
	const char **groups;

	if (peer && !is_own(c->req))
		return;
	if (!peer || !peer->name)
		return; /* a user of the API is called by the common name */
	groups = arena_new_n(c->arena, const char *, peer->n_groups + 2);
	for (size_t i = 0; i < peer->n_groups; i++)
		groups[i] = arena_strdup(c->arena, peer->groups[i]);
	groups[peer->n_groups] = "system:authenticated";
	c->user = (struct user){ .name = arena_strdup(c->arena, peer->name),
				 .uid = "",
				 .groups = groups };
	c->ends = peer->expires;
}

static struct err *by_text(struct tokens *t, struct call *c, const char *token)
{
	struct token_owner owner = { 0 };
	struct err *e = token_check(t, c, token, NULL, &owner);

	if (e)
		return unauthorized(e);
	c->user = owner.user;
	c->ends = owner.user.expires;
	c->renewed = owner.user.renewed;
	return NULL;
}

/* The user of "Authorization: Bearer TOKEN". */
static struct err *by_token(struct tokens *t, struct call *c, const char *header)
{
	struct span token;

	if (!http_bearer(header, &token))
		return unauthorized(NULL);
	return by_text(t, c, arena_strndup(c->arena, token.p, token.len));
}

/* The user of a token among the protocols of a WebSocket, which nobody behind us sees. */
static struct err *by_protocol(struct tokens *t, struct call *c)
{
	autofree char *token = NULL;
	struct err *e;

	if (!websocket_wanted(c->req))
		return NULL;
	e = http_headers_take_bearer_protocol(http_request_headers(c->req), &token);
	if (e)
		return unauthorized(e);
	return token ? by_text(t, c, arena_strdup(c->arena, token)) : NULL;
}

struct err *authenticate(struct tokens *t, struct call *c)
{
	const char *header = http_request_header(c->req, "authorization");
	struct err *e;

	c->user = anonymous;
	if (tls_peer_rejected(http_request_conn_stream(c->req)))
		return unauthorized(NULL);
	by_certificate(c);
	e = credential_check(t->objects, c->user.groups);
	if (e)
		return unauthorized(e);
	return header ? by_token(t, c, header) : by_protocol(t, c);
}

struct err *header_may(struct tokens *t, const struct authoriser *by, const char *header,
		       const struct route *what, char **ret_user)
{
	autoptr(arena) a = arena_new();
	struct call c = { .arena = a, .route = *what };
	struct err *e = header ? by_token(t, &c, header) : unauthorized(NULL);

	if (e)
		return e;
	*ret_user = xstrdup(c.user.name);
	return authorise(by, &c);
}
