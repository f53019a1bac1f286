/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

struct call;
struct map;
struct objects;
struct route;
struct user;

/* Who asks (authenticate.c, tokens.c), and may they (authorise.c). */

/* Rights of service accounts in their own namespaces (grants.c); none has any that is not here. */
enum role {
	ROLE_NONE,
	ROLE_VIEW,
	ROLE_EDIT,
	ROLE_ADMIN,
	ROLE_MAX_,
};
struct grants {
	struct map *roles; /* NS/NAME → enum role, as a pointer */
};
/* text: "NS/NAME=ROLE,…"; NULL and "" grant nothing. ERR_INVALID says which grant is wrong. */
must_use struct err *grants_read(struct grants *g, const char *text);
void grants_done(struct grants *g);

struct tokens {
	const struct objects *objects;
	const char *key;   /* signs them; outlives this */
	struct map *known; /* SHA-256 of a token, as hex → struct json_doc of its claims */
};
void tokens_init(struct tokens *t, const struct objects *objects, const char *key);
void tokens_done(struct tokens *t);

/* Fills in c->user: anonymous when the call carries no credential. ERR_UNAUTHENTICATED: it carries
 * one that is not valid, whatever else was sent. */
must_use struct err *authenticate(struct tokens *t, struct call *c);
/* ERR_FORBIDDEN: the call asks to act as another user, which nobody may. */
must_use struct err *refuse_impersonation(const struct call *c);
/* ERR_FORBIDDEN: c->user may not do what c->route says. */
must_use struct err *authorise(const struct grants *g, const struct call *c);
/* Both for an Authorization header that came another way than in a call; NULL (none did) is
 * ERR_UNAUTHENTICATED. */
must_use struct err *header_may(struct tokens *t, const struct grants *g, const char *header,
				const struct route *what);
/* Questions about users that others may ask (reviews.c). */
enum review {
	REVIEW_NONE,
	REVIEW_TOKEN,
	REVIEW_ACCESS,
};
enum review review_of(const struct route *r);             /* which of them a path names */
must_use struct err *review_check(const struct route *r); /* ERR_METHOD, or no such path */
struct review_desk {
	struct tokens *tokens;
	const struct grants *grants;
};
void review_answer(const struct review_desk *desk, struct call *c);
/* Answers POST serviceaccounts/NAME/token. */
void token_issue(struct tokens *t, struct call *c);
