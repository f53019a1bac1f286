/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "gate/gate.h"
#include "workload/workload.h"

struct json;
struct json_doc;

struct workload {
	struct workload_spec spec;
	char *domain;
	const struct kind *pod, *sandbox;
	struct list visits; /* struct visit */
	struct workload_stats stats;
};

/* Who a sandbox is, and who acts in it. */
struct subject {
	char *id; /* spiffe://… */
	char *ns, *name;
	bool acted;
	struct gate_actor actor; /* if acted */
};

/* claims.c: no I/O. What an audience or a domain is refused for. */
must_use struct err *trust_domain_check(const char *domain);
/* The audiences that a query asks for, each malloc'd, in a malloc'd list that ends with NULL.
 * ERR_INVALID. */
must_use struct err *audiences_read(const char *query, char ***ret);
void audiences_free(char **list);
struct claims_spec {
	const char *issuer, *id; /* id: jti */
	char *const *audiences;
	int64_t now_s;
};
char *claims_write(const struct subject *s, const struct claims_spec *spec); /* malloc'd JSON */
char *subject_write(const struct subject *s);                                /* likewise */
char *subject_id(const char *domain, const char *ns, const char *name);
