/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/*
 * Tokens of service accounts for Pods, in one process: the server issues them, and the node asks
 * for those that a Pod's volumes show. A token is bound to the Pod and worth nothing once that is
 * gone.
 */
struct pod_token_wish {
	const char *ns, *account;
	const char *pod, *pod_uid;
	const char *audience; /* NULL or "": the API server */
	int64_t expire_s;
};
struct token_issuer {
	/* *ret is malloc'd; *ret_expires is in seconds since 1970. ERR_NOT_FOUND: there is no such
	 * account or Pod (any more). */
	struct err *(*issue)(void *arg, const struct pod_token_wish *w, char **ret,
			     int64_t *ret_expires);
	void *arg;
};
