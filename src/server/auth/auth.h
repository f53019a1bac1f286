/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "server/auth/opinion.h"

struct access_target;
struct act;
struct arena;
struct call;
struct json;
struct kind;
struct map;
struct object;
struct objects;
struct pod_token_wish;
struct rbac;
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

/* What decides: the stored roles, and the grants of the settings beside them; before them, for
 * users whom roles alone do not describe, whoever has an opinion (server.h). */
struct authoriser {
	const struct objects *objects;
	struct rbac *rbac;
	struct grants grants;
	server_opinion opinion; /* NULL: nobody */
	void *opinion_arg;
};

#define TOKEN_ISSUER "https://kubernetes.default.svc"
/* Those of agents (agent_tokens.c). */
struct agent_tokens {
	char *audience;     /* this instance; owned */
	struct map *known;  /* SHA-256 of a token, as hex → struct known_token */
	size_t known_bytes; /* of these tokens */
};
struct tokens {
	const struct objects *objects;
	const char *key;   /* signs them; outlives this */
	struct map *known; /* SHA-256 of a token, as hex → struct json_doc of its claims */
	struct agent_tokens agents;
};
void tokens_init(struct tokens *t, const struct objects *objects, const char *key);
/* The instance is known by its CA. Until it is, no agent has a valid token. */
must_use struct err *tokens_set_instance(struct tokens *t, const char *ca_pem);
void tokens_done(struct tokens *t);

/* Fills in c->user: anonymous when the call carries no credential. ERR_UNAUTHENTICATED: it carries
 * one that is not valid, whatever else was sent. */
must_use struct err *authenticate(struct tokens *t, struct call *c);
/* c->user becomes whom the headers Impersonate-* name, if there are any. ERR_FORBIDDEN: the user
 * may not; ERR_MALFORMED: they name no user. */
must_use struct err *impersonate(const struct authoriser *by, const struct objects *os,
				 struct call *c);
/* ERR_FORBIDDEN: c->user may not do what c->route says. */
must_use struct err *authorise(const struct authoriser *by, const struct call *c);
/* The same of any act. Nothing is refused to system:masters. */
must_use struct err *user_may(const struct authoriser *by, const struct user *u,
			      const struct act *a);
/* A role or binding that is about to be stored. ERR_FORBIDDEN: it gives rights that its writer does
 * not hold; ERR_NOT_FOUND: there is no such role to compare with. */
struct role_write {
	const struct user *user;
	const struct kind *kind;      /* others than roles and bindings are fine */
	const char *ns, *name;        /* of the request; "" where there is none */
	const struct json *obj, *old; /* old NULL: it is created */
};
must_use struct err *escalation_check(const struct authoriser *by, const struct objects *os,
				      const struct role_write *w);
/* An Agent or an Approval that is about to be stored. ERR_FORBIDDEN: it says what its writer may
 * not say, that a key is verified or that something is approved. */
struct agent_write {
	const struct user *user;
	const struct kind *kind; /* others are fine */
	const char *ns;
	const struct json *obj, *old; /* old NULL: it is created */
};
must_use struct err *agent_write_check(const struct authoriser *by, const struct objects *os,
				       const struct agent_write *w);
/* What is Private to others (private.c). ERR_FORBIDDEN: the write uses it. */
must_use struct err *private_write_check(const struct authoriser *by, const struct agent_write *w);
/* The same of a claim from the pool, and of the Sandbox that a Pod belongs to. */
must_use struct err *private_check_claim(const struct authoriser *by, const struct user *u,
					 const char *ns, const char *pool);
must_use struct err *private_check_pod(const struct authoriser *by, const struct user *u,
				       const char *ns, const char *pod);
/* For an Authorization header that came another way than in a call; NULL (none did) is
 * ERR_UNAUTHENTICATED. *ret_user: whose it is, malloc'd, also with ERR_FORBIDDEN; otherwise it
 * stays as it is. */
must_use struct err *header_may(struct tokens *t, const struct authoriser *by, const char *header,
				const struct route *what, char **ret_user);
/* Questions about users, which are answered and not stored (reviews.c). */
enum review {
	REVIEW_NONE,
	REVIEW_TOKEN,
	REVIEW_SELF,
	REVIEW_ACCESS,
	REVIEW_LOCAL_ACCESS,
	REVIEW_SELF_ACCESS,
	REVIEW_SELF_RULES,
	REVIEW_MAX_,
};
enum review review_of(const struct route *r);             /* which of them a path names */
must_use struct err *review_check(const struct route *r); /* ERR_METHOD, or no such path */
struct review_desk {
	struct tokens *tokens;
	const struct authoriser *by;
};
void review_answer(const struct review_desk *desk, struct call *c);
/*
 * Credentials that users/ makes and can take back (credential.c). The record of one is a Secret of
 * this type in kube-system; a credential names it in one more group of its user, and is valid as
 * long as it is there.
 */
#define CREDENTIAL_TYPE   "cay.dev/user"
#define CREDENTIAL_PREFIX "cay-user-" /* of the names of records */
#define CREDENTIAL_GROUP  "cay:key:"
enum {
	CREDENTIAL_NAME_MAX = 32,
};
const char *credential_group(struct arena *a, const struct object *record);
/* ERR_UNAUTHENTICATED: one of the groups names a record, or the key of an agent, that is gone. */
must_use struct err *credential_check(const struct objects *os, const char *const *groups);
/* groups end with NULL, and include that of the record. *ret is malloc'd. */
must_use struct err *token_for_user(const char *key, const char *name, const char *const *groups,
				    int64_t ttl_s, char **ret);
/* Sessions of the web page (page_tokens.c). expires: seconds since 1970; *ret is malloc'd. */
must_use struct err *page_token_sign(const char *key, const struct access_target *who,
				     int64_t expires, char **ret);
const char *page_refusal(const struct access_target *who); /* why they get none; NULL: they do */
bool group_is_bond(const char *group); /* it says by what a credential is bound, and is not shown */
/* For struct token_issuer; arg is the struct tokens. */
must_use struct err *token_for_pod(void *arg, const struct pod_token_wish *w, char **ret,
				   int64_t *ret_expires);
/* Answers POST serviceaccounts/NAME/token. */
void token_issue(struct tokens *t, struct call *c);
