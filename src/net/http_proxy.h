/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

struct http_headers;

/*
 * What a proxy between hostile ends does to headers: the router before sandboxes, and the API
 * server before Pods.
 */

/* Takes away all that match a pattern, whatever their case; a dash stands for an underscore too. A
 * pattern that ends with a dash is the beginning of names. The list ends with NULL. */
void http_headers_drop(struct http_headers *h, const char *const patterns[]);

/* What servers behind a proxy believe about their users: patterns for http_headers_drop(). */
extern const char *const http_identities[];

/* Takes away the subprotocols of a WebSocket that carry a bearer token: a browser, which can set no
 * other header there, shows it to an API server so. The others stay, in their order. */
void http_headers_drop_bearer_protocols(struct http_headers *h);

/*
 * The token among them, as Kubernetes has it: base64url.bearer.authorization.k8s.io.TOKEN, where
 * TOKEN is in base64url. malloc'd, and taken away from the headers; *ret stays as it is if there is
 * none. ERR_MALFORMED: there are several, one is not well-formed, or no other protocol is offered.
 */
must_use struct err *http_headers_take_bearer_protocol(struct http_headers *h, char **ret);

/* A Content-Security-Policy under which pages have an origin that is nobody's. */
extern const char http_page_policy[];

enum {
	PEER_IP_MAX = 64
};
/* "1.2.3.4:567" and "[::1]:567" without the port and brackets. */
void http_peer_ip(const char *peer, char ret[PEER_IP_MAX]);
