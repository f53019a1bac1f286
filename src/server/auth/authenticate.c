/* SPDX-License-Identifier: Apache-2.0 */
#include "net/http_server.h"
#include "server/server_priv.h"

/*
 * Who asks: a client certificate of our CA (CN is the user, every O a group), or a bearer token.
 * A credential that does not hold is 401, whatever else was sent; no credential is anonymous.
 */
static const char *const anonymous_groups[] = { "system:unauthenticated", NULL };
const struct user user_anonymous = {
	.name = "system:anonymous",
	.uid = "",
	.groups = anonymous_groups,
};

bool user_in(const struct user *u, const char *group)
{
	return str_in(group, u->groups);
}

static struct err *unauthorized(struct err *why)
{
	err_free(why); /* the reason is not for those who try */
	return err_new(ERR_UNAUTHENTICATED, "Unauthorized");
}

static bool by_certificate(struct call *c, struct user *ret)
{
	struct tls_peer peer = { 0 };
	const char **groups;

	tls_peer_of(http_request_conn_stream(c->req), &peer);
	if (!peer.name) {
		tls_peer_done(&peer);
		return false;
	}
	groups = arena_new_n(c->arena, const char *, peer.n_groups + 2);
	for (size_t i = 0; i < peer.n_groups; i++)
		groups[i] = arena_strdup(c->arena, peer.groups[i]);
	groups[peer.n_groups] = "system:authenticated";
	*ret = (struct user){ .name = arena_strdup(c->arena, peer.name),
			      .uid = "",
			      .groups = groups };
	tls_peer_done(&peer);
	return true;
}

struct err *authenticate(struct call *c)
{
	const char *header = http_request_header(c->req, "authorization");
	struct span word, token;
	struct err *e;

	if (tls_peer_rejected(http_request_conn_stream(c->req)))
		return unauthorized(NULL);
	if (by_certificate(c, &c->user) && !header)
		return NULL;
	if (!header)
		return NULL;
	word = span_cut(span_trim(SPAN(header)), ' ', &token);
	if (!span_eq_nocase(word, "bearer") || !token.p)
		return unauthorized(NULL);
	token = span_trim(token);
	e = token_check(c, arena_strndup(c->arena, token.p, token.len), &c->user);
	return e ? unauthorized(e) : NULL;
}
