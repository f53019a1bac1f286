/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct arena;
struct capabilities;
struct client;
struct ip;
struct loop;

/*
 * The outlet: a gateway for requests of sandboxes to the world, at port 80 of the gateway address.
 *
 *   http://outlet.cay.internal/https/HOST[:PORT]/PATH?QUERY
 *
 * It knows who asks by the address, asks whether the agents that are attached may do that, puts the
 * Credential for the host into the request, and sends it to HOST over verified TLS. The value of a
 * Credential never enters a sandbox. On the loop's thread.
 */
struct outlet;

/* Who asks. Texts are borrowed until the loop turns. */
struct outlet_sandbox {
	const char *ns, *name, *uid;
	unsigned place; /* what reach() and lookup() know it by */
};

/* What is asked about; path has no query. */
struct outlet_ask {
	const char *ns, *sandbox;
	const char *method, *host, *path;
	uint16_t port;
};
/* In the arena, or borrowed until the loop turns. */
struct outlet_verdict {
	const char *const *agents;               /* attached; ends with NULL */
	const struct capabilities *capabilities; /* of all of them together */
};

/*
 * One line of the record. A request has one before it goes out, without a status, and one at its
 * end; one that is refused at once has the second alone. What is not known is NULL or 0.
 */
struct outlet_record {
	const char *ns, *sandbox, *from;
	const char *method, *scheme, *host, *path;
	uint16_t port;
	int status;
	const char *credential;  /* whose value is put into it */
	const char *note;        /* why it was refused, or has no status at its end */
	uint64_t received, sent; /* bytes of bodies, from the sandbox and to it */
	int64_t took_us;
	unsigned unrecorded; /* requests of this sandbox before, that were too many to record */
};

struct outlet_ops {
	/* False: no sandbox has this address. */
	bool (*who)(void *arg, const char *ip, struct outlet_sandbox *ret);
	/* ERR_FORBIDDEN: no agent is attached, or they may not all do it without being asked. */
	struct err *(*decide)(void *arg, const struct outlet_ask *ask, struct arena *a,
			      struct outlet_verdict *ret);
	/* The addresses of a name: done() is called from the loop, once, unless it is cancelled. */
	void *(*lookup)(void *arg, unsigned place, const char *name,
			void (*done)(void *done_arg, const struct ip *addrs, size_t n),
			void *done_arg);
	void (*lookup_cancel)(void *lookup);
	/* Whether the sandbox may have a connection to this address. */
	bool (*reach)(void *arg, unsigned place, const struct ip *to, uint16_t port);
	void (*record)(void *arg, const struct outlet_record *r);
	/* done() is called from the loop, once, when all that was recorded so far is in the log, or
	 * with an error (taken over) when it cannot be written now; unless it is cancelled. */
	void *(*recorded)(void *arg, void (*done)(void *done_arg, struct err *e), void *done_arg);
	void (*recorded_cancel)(void *wait);
};

struct outlet_spec {
	struct loop *loop;
	struct client *client;
	const char *address; /* "100.64.0.1", whose port 80 it listens on */
	uint32_t mark;       /* of packets to sandboxes */
	const char *ca_pem;  /* whom servers must be certified by; NULL: the system's */
	const struct outlet_ops *ops;
	void *arg;
};
/* If the port is taken, it says so and tries again now and then. ERR_INVALID: the certificates. */
must_use struct err *outlet_new(const struct outlet_spec *spec, struct outlet **ret);
void outlet_free(struct outlet *o);
AUTOPTR(outlet)

struct outlet_stats {
	uint64_t passed, refused, failed;
	size_t active;
};
void outlet_stats(const struct outlet *o, struct outlet_stats *ret);
