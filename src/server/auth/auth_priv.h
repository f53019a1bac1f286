/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/auth/auth.h"
#include "server/auth/rbac.h"
#include "server/call/call.h"

#define AUTHN_GROUP "authentication.k8s.io"
#define AUTHZ_GROUP "authorization.k8s.io"

#define TOKEN_USER "cay.dev/user" /* a claim of tokens of users */
#define TOKEN_PAGE "cay.dev/page" /* and of sessions of the page */

/* Groups that say by what their user is bound: nobody is shown them, or gets anything by them. */
#define AGENT_KEY_GROUP "cay:agent-key:"
#define PAGE_GROUP      "cay:page:" /* that it is a session of the page */
/* page_tokens.c: the user of such a token, in the arena; whether their credential was taken back
 * is asked apart. ERR_UNAUTHENTICATED: the claims are not those of one. */
must_use struct err *page_token_user(struct arena *a, const struct json *claims, struct user *ret);
/* How a narrowed token is shown in reviews, and understood in them. */
#define GRANT_EXTRA "cay.dev/grant"

struct arena;
struct buf;
struct json;

/* What the grants of the settings allow a service account in its own namespace. */
bool grants_allow(const struct grants *g, const struct user *u, const struct act *a);
bool grants_any(const struct grants *g, const struct user *u); /* it has a role */

/* The parts of "system:serviceaccount:NS:NAME", in the arena. False: it is no such name. */
bool account_split(struct arena *a, const char *user, const char **ret_ns, const char **ret_name);

/* The user of such a token, in the arena; whether it was taken back is asked apart. */
void credential_user(struct arena *a, const struct json *claims, struct user *ret);

/* Whose a bearer token is, in the call's arena. audiences NULL: it must be for this server;
 * otherwise for one of them. */
struct token_owner {
	struct user user;
	const char *const *audiences; /* those of the token that were asked for; NULL-terminated */
};
must_use struct err *token_check(struct tokens *t, struct call *c, const char *token,
				 const struct json *audiences, struct token_owner *ret);

/* agent_tokens.c: the same of a token that an agent has signed. */
void agent_tokens_init(struct agent_tokens *t);
void agent_tokens_done(struct agent_tokens *t);
must_use struct err *agent_token_check(struct tokens *t, struct call *c, const char *token,
				       const struct json *audiences, struct token_owner *ret);
/* ERR_UNAUTHENTICATED: the group names the key of an agent, and there is no such agent or key. */
must_use struct err *agent_key_check(const struct objects *os, const char *group);

/* narrow.c: whether the token leaves this of its user's rights; if not, why. */
bool narrow_allows(const struct objects *os, const struct user *u, const struct act *a,
		   struct buf *why);

/* private.c: ERR_FORBIDDEN: the act uses what is Private to another user. */
must_use struct err *private_check(const struct authoriser *by, const struct user *u,
				   const struct act *a);
/* Everybody may read it by its name, without a role. */
bool private_is_open(const struct authoriser *by, const struct user *u, const struct act *a);
