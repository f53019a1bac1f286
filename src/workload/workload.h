/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct audit;
struct client;
struct gate;
struct http_request;

/*
 * Who a sandbox is, told to code that runs in it, and proven to others by a token: a JWT whose
 * subject is the sandbox (spiffe://DOMAIN/ns/NAMESPACE/sandbox/NAME) and whose `act` is the agent
 * that acts there. Others check it with what is published below WORKLOAD_PATH. On the loop's
 * thread.
 */
struct workload;

#define WORKLOAD_PATH \
	"/identity/" /* at the API server: the issuer is what stands before the slash */
enum {
	WORKLOAD_TTL_S = 300,
	WORKLOAD_AUDIENCES_MAX = 4,
	WORKLOAD_AUDIENCE_MAX = 256, /* bytes */
};

struct workload_spec {
	struct client *client; /* outlives it, as do the gate and the audit */
	struct gate *gate;
	struct audit *audit; /* NULL: there is no record */
	const char *domain;  /* the trust domain */
	/* The issuer, which may be known late; borrowed. */
	const char *(*issuer)(void *arg);
	/* Whether this is what the API server calls itself: a token is no way there. */
	bool (*is_own)(void *arg, const char *audience);
	must_use struct err *(*sign)(void *arg, const char *claims, char **ret);
	const char *(*keys)(void *arg); /* a JSON Web Key Set that checks what sign() made */
	void *arg;
};
/* ERR_INVALID: the domain is none that a SPIFFE ID can have. */
must_use struct err *workload_new(const struct workload_spec *spec, struct workload **ret);
/* Requests stay unanswered: the HTTP server is freed before or after. */
void workload_free(struct workload *w);
AUTOPTR(workload)

/* Who asks: code in a Pod, and the uid of the attachment whose command it is, or NULL. */
struct workload_caller {
	const char *ns, *pod, *pod_uid, *attachment;
};
void workload_visit(struct workload *w, struct http_request *req,
		    const struct workload_caller *who);
/* A request whose path begins with WORKLOAD_PATH, from anybody. */
void workload_publish(struct workload *w, struct http_request *req);

struct workload_stats {
	uint64_t issued, refused;
};
void workload_stats(const struct workload *w, struct workload_stats *ret);
