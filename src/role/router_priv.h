/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "router/callers/reviews.h"
#include "router/router.h"

struct buf;
struct http_server;
struct loop;
struct settings;

/* What `cay router` was told, checked. Everything in it is its own. */
struct router_config {
	struct router_spec router;
	struct reviews_spec reviews;
	char *listen, *tls_listen, *metrics, *probes; /* "" where there is none */
	char *ns;                                     /* NULL: all */
	char *cert_file, *key_file, *client_ca_pem, *prefix, *secret;
	char **audiences; /* NULL-terminated */
	unsigned shutdown_ms, sync_ms;
};
/* ERR_INVALID names the flag. */
must_use struct err *router_config_read(const struct settings *s, struct router_config *ret);
void router_config_done(struct router_config *c);
