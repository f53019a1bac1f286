/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "server/auth/opinion.h"

struct access;
struct access_target;
struct audit;
struct buf;
struct client;
struct http_headers;
struct http_request;
struct kinds;
struct loop;
struct store;
struct tracer;
struct tls_pair;
struct token_issuer;

/*
 * The API server: route, authenticate, authorise, default, validate, store, watch. On the loop's
 * thread.
 */
struct server;

#define SERVER_SERVICE_CIDR "10.96.0.0/16,fd00:10:96::/112"

struct server_spec {
	struct kinds *kinds;   /* what is served; outlives the server */
	const char *data_dir;  /* CA, keys and store.db live here; made on first start */
	const char *listen;    /* "127.0.0.1:6443"; port 0: any */
	const char *node_name; /* Pods are bound to this node when created; NULL: not bound */
	const char *const
		*sans; /* further names and addresses in the certificate; NULL-terminated or NULL */
	const char *const *runtime_classes; /* exist from the start; NULL-terminated or NULL */
	const char *grants; /* rights of service accounts, "NS/NAME=ROLE,…"; NULL: none */
	/* Where Services get their addresses, a block of each family; NULL: SERVER_SERVICE_CIDR. */
	const char *service_cidr;
	uint64_t store_reserve; /* bytes of head-room for a full disk */
	size_t watch_history;   /* bytes of past states, see struct store_spec; 0: 8 MiB */
	size_t max_conns;       /* 0: 4096 */
	bool new_store;         /* begin anew where a store is missing */
	bool new_keys;          /* make keys anew that are missing from an instance in use */
	bool accept_damaged_log;
};

/* Opens data_dir/store.db and creates what is missing (CA, keys, default namespaces, service
 * accounts). Does not listen yet. */
must_use struct err *server_open(struct loop *l, const struct server_spec *spec,
				 struct server **ret);
/* How pods/exec, log and portforward reach Pods; NULL: these answer 503. */
void server_set_access(struct server *s, struct access *a);
/* Where writes are recorded, and ways into Pods that are refused; outlives the server. NULL:
 * nowhere. */
void server_set_audit(struct server *s, struct audit *a);
/* Somebody wants to go into a Pod that is not Ready. True: it sleeps, and is being woken: exec,
 * attach and portforward wait for it. NULL: nothing sleeps. */
void server_set_wake(struct server *s, bool (*wake)(void *arg, const char *ns, const char *pod),
		     void *arg);
/* write appends lines to /metrics (base/metrics.h) until the server is freed. */
/* Spans for requests; NULL: none. The tracer outlives the server. */
void server_set_tracer(struct server *s, struct tracer *t);
void server_add_metrics(struct server *s, void (*write)(void *arg, struct buf *b), void *arg);
void server_set_opinion(struct server *s, server_opinion fn, void *arg); /* NULL: none */
/*
 * Whether whoever sends this Authorization header (NULL: none was sent) may create a subresource of
 * a Pod, such as "exec": the same questions as for a request that asks for it. ERR_UNAUTHENTICATED,
 * ERR_FORBIDDEN. *ret_user: who that is, malloc'd, also with ERR_FORBIDDEN; it stays as it is if
 * nobody is known by the header.
 */
struct server_entry {
	const char *ns, *pod, *sub;
};
must_use struct err *server_may_enter(struct server *s, const char *authorization,
				      const struct server_entry *to, char **ret_user);
/*
 * Whether a user who has been let in already may do something: the same question as for a request
 * that asks for it. who is as access_target has it, without its Pod.
 */
must_use struct err *server_user_may(struct server *s, const struct access_target *who,
				     const struct server_act *act);
/* The same for a path that belongs to no resource: whether they may get it (nonResourceURLs). */
must_use struct err *server_user_may_get(struct server *s, const struct access_target *who,
					 const char *path);
/* Whether what is Private lets the user in: the Sandbox of the Pod in who, and the template that
 * the pool's claims are made of. */
must_use struct err *server_may_pass(struct server *s, const struct access_target *who);
must_use struct err *server_may_claim(struct server *s, const struct access_target *who,
				      const char *ns, const char *pool);

/*
 * An endpoint: a path that another part of this process answers, whatever the method. visit() gets
 * the head, becomes the owner of the request (http_request_set_owner()) and answers it; who is
 * borrowed.
 *
 * Only requests of users who have said who they are get there; others are answered with 401. An
 * open endpoint asks nobody: it has credentials of its own, and who is an address alone. What its
 * requests cost is limited by nobody else either.
 */
struct server_endpoint {
	const char *path; /* "/mcp"; with a slash at its end: all below it; static */
	void (*visit)(void *arg, struct http_request *req, const struct access_target *who);
	void *arg;
	bool open;
};
enum {
	SERVER_ENDPOINTS_MAX = 16,
};
void server_add_endpoint(struct server *s, const struct server_endpoint *e); /* copied */
void server_del_endpoint(struct server *s, const char *path);
/* Answers a request of an endpoint as the server answers its own that fail: with a Status, and with
 * these headers. Takes e over. */
void server_refuse(struct http_request *req, struct err *e);
void server_refuse_with(struct http_request *req, struct err *e, const struct http_headers *more);
int server_status(const struct err *e); /* of HTTP, that they answer with */
/* The CA of this instance, which signs certificates of the API server and its users. */
const struct tls_pair *server_ca(const struct server *s);
const char *server_ca_cert(const struct server *s); /* its certificate, PEM */
/* Who issues tokens to the Pods of a node in this process, until the server is freed. */
struct token_issuer server_token_issuer(struct server *s);
/*
 * Tokens that others check, with the key of those of service accounts: to this server they are
 * none. claims is JSON; *ret is malloc'd.
 */
must_use struct err *server_sign_for_others(struct server *s, const char *claims, char **ret);
/*
 * Sessions of the web page: a token for who, with all of their groups, until then (seconds since
 * 1970); *ret is malloc'd. server_no_page(): why they get none, or NULL.
 */
must_use struct err *server_page_token(struct server *s, const struct access_target *who,
				       int64_t expires, char **ret);
const char *server_no_page(const struct access_target *who);
bool server_shows_group(const char *group); /* to its user: it is no bond of a credential */
const char *server_token_keys(const struct server *s); /* a JSON Web Key Set that checks them */
/* Whether tokens for this audience are for this server. */
bool server_is_audience(const struct server *s, const char *audience);
/* Listens; from now on /readyz is 200. */
must_use struct err *server_listen(struct server *s);
const char *server_address(const struct server *s); /* "127.0.0.1:6443", as bound */
/* A client for this process. user is who its writes are recorded as ("system:cay:controller"). */
struct client *server_client(struct server *s, const char *user);
/* Writes data_dir/admin.kubeconfig (0600) with a client certificate in system:masters. */
must_use struct err *server_write_kubeconfig(struct server *s);
struct store *server_store(struct server *s);
bool server_store_is_new(const struct server *s); /* server_open() has made it */
void server_free(struct server *s);               /* cuts connections, commits what is pending */
AUTOPTR(server)
