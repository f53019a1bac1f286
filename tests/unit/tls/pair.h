/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "net/conn.h"
#include "tls/tls.h"

/* A CA, a server and a client on one loop, connected by TLS. */
struct end {
	struct conn *c;
	struct buf got;
	bool eof, closed, failed;
};

struct pair {
	struct loop *l;
	struct tls_ctx *server_ctx, *client_ctx;
	struct end server, client;
};

struct pair_spec {
	const char *server_sans[3];
	const char *server_name;
	const struct tls_pair *client_pair; /* NULL: none */
	const char *client_ca;              /* NULL: no certificate is asked for */
	bool http2;                         /* the server offers it */
};

extern struct tls_pair test_ca, other_ca; /* created by pair_setup() */
void pair_setup(void);
void pair_init(struct pair *p, const struct pair_spec *spec);
void pair_done(struct pair *p);
struct stream;
struct conn *pair_conn(struct loop *l, struct stream *s, struct end *e); /* events go to e */
