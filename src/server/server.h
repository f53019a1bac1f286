/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct access;
struct access_target;
struct buf;
struct client;
struct kinds;
struct loop;
struct store;

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
/* write appends lines to /metrics (base/metrics.h) until the server is freed. */
void server_add_metrics(struct server *s, void (*write)(void *arg, struct buf *b), void *arg);
/*
 * Whether whoever sends this Authorization header (NULL: none was sent) may exec into a Pod: the
 * same questions as for a request that asks for it. ERR_UNAUTHENTICATED, ERR_FORBIDDEN.
 */
must_use struct err *server_may_exec(struct server *s, const char *authorization, const char *ns,
				     const char *pod);
/* The same for a user who has been let in already: as access_target has it, without its Pod. */
must_use struct err *server_user_may_exec(struct server *s, const struct access_target *who,
					  const char *ns, const char *pod);
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
