/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"
#include "base/str.h"
#include "net/http_server.h"
#include "server/auth/auth_priv.h"
#include "server/call/call.h"
#include "tls/tls.h"

/*
 * Who asks: a client certificate of our CA (CN is the user, every O a group), or a bearer token.
 * A credential that is not valid is 401, whatever else was sent; no credential is anonymous.
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

static void by_certificate(struct call *c)
{
	const struct tls_peer *peer = tls_peer_of(http_request_conn_stream(c->req));
	const char **groups;

	if (!peer || !peer->name)
		return; /* a user of the API is called by the common name */
	groups = arena_new_n(c->arena, const char *, peer->n_groups + 2);
	for (size_t i = 0; i < peer->n_groups; i++)
		groups[i] = arena_strdup(c->arena, peer->groups[i]);
	groups[peer->n_groups] = "system:authenticated";
	c->user = (struct user){ .name = arena_strdup(c->arena, peer->name),
				 .uid = "",
				 .groups = groups };
}

/* The user of "Authorization: Bearer TOKEN". */
static struct err *by_token(struct tokens *t, struct call *c, const char *header)
{
	struct token_owner owner = { 0 };
	struct span token;
	struct err *e;

	if (!http_bearer(header, &token))
		return unauthorized(NULL);
	e = token_check(t, c, arena_strndup(c->arena, token.p, token.len), NULL, &owner);
	if (e)
		return unauthorized(e);
	c->user = owner.user;
	return NULL;
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
	return header ? by_token(t, c, header) : NULL;
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
