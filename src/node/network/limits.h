/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/ip.h"
#include "base/mem.h"

struct buf;
struct capabilities;
struct instance;

/*
 * What one sandbox may reach whose way out is limited to places: addresses that are named, and for
 * a while those that a name was found to have, its leases. All of it is pure.
 *
 * A place that names methods or paths is not for packets, which show neither: it opens nothing
 * here.
 */
struct limits;

enum {
	LEASES_MAX = 256,            /* of one sandbox; then the one that ends first goes */
	LIMITS_PORTS_MAX = 64,       /* of one name, and of one address */
	LIMITS_ELEMENTS_MAX = 32768, /* of a set; what is beyond is shut */
};

/* Copies what it needs. */
struct limits *limits_new(const struct capabilities *c);
void limits_free(struct limits *l);
AUTOPTR(limits)
/* Other places; leases of names that none of them has end. True: a place, or a port of one, that it
 * had is not among them. */
bool limits_set(struct limits *l, const struct capabilities *c);
/* Ends leases of hosts that do not stand, and shuts places that can be reached without a name: an
 * address, and "*", which stands for no host in particular. True: any of these was open. */
bool limits_judge(struct limits *l, bool (*stands)(void *arg, const char *host), void *arg);

/* The ports that are open at a host; 0: it is in no place. host: a name or an address. */
size_t limits_ports(const struct limits *l, const char *host, uint16_t ret[LIMITS_PORTS_MAX]);

/* The name was found to have the address. False: it was known, and is for longer now. */
bool limits_lease(struct limits *l, const char *host, const struct ip *ip, usec until);
void limits_expire(struct limits *l, usec now); /* ends leases that are over */
usec limits_next_end(const struct limits *l);   /* of the lease that ends first; 0: there is none */
size_t limits_leases(const struct limits *l);
void limits_each(const struct limits *l,
		 void (*fn)(void *arg, const char *host, const struct ip *ip, usec until),
		 void *arg);

/*
 * The rules of all sandboxes in the language of nft, for struct firewall_rules: the sets "free" of
 * those that are not limited, "limited" of the others, "leases" of who reaches which address by
 * which protocol and port, and "anywhere" of who reaches every public address; each once more for
 * IPv6.
 */
struct limits_world {
	const struct instance *instance;
	const bool *free; /* by place in the pool */
	struct limits *const *limits;
	size_t n_places;
};
void limits_text(const struct limits_world *w, struct buf *out);
size_t limits_elements(const struct limits *l); /* that its leases take */
void limits_make_room(struct limits *l);        /* the lease that ends first goes */
