/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ip.h"
#include "base/list.h"

struct arena;
struct buf;
struct bytes;
struct capabilities;
struct client;
struct instance;
struct loop;
struct object;

/*
 * What sandboxes reach whose way out is limited, beyond NetworkPolicies. Who is limited to which
 * places somebody else decides (reach_judge); here that becomes rules for packets, and answers to
 * those who look up names: a name of one of the places is looked up, and what it was found to be is
 * reached for a while, by a lease.
 *
 * While nobody may be limited there are no rules. As soon as somebody may, a sandbox that is not
 * known yet reaches nothing.
 *
 * On the loop's thread.
 */
struct reach;

enum reach_state {
	REACH_FREE, /* it is not limited */
	REACH_LIMITED,
	REACH_UNKNOWN, /* nobody can say */
};

/* A name that a sandbox asks for, until somebody has decided. */
enum reach_word {
	REACH_YES,
	REACH_NO,
	REACH_LATER, /* a person is asked */
};
struct reach_question {
	/* Once, maybe from within ask(). */
	void (*decided)(struct reach_question *q, enum reach_word word);
	void *state; /* the judge's */
};

/* Who decides. Pods are borrowed. */
struct reach_judge {
	bool (*any)(void *arg); /* whether anybody may be limited */
	/*
	 * Of REACH_LIMITED, to what: it is in the arena, or borrowed until the loop turns.
	 * REACH_UNKNOWN: the Pod has no Sandbox, or outlives it. If it was not limited so far, it
	 * still is not; otherwise it reaches nothing any more.
	 */
	enum reach_state (*limits)(void *arg, const struct object *pod, struct arena *a,
				   struct capabilities *ret);
	/* Whether this host, which is in one of its places, may be looked up. */
	void (*ask)(void *arg, const struct object *pod, const char *host,
		    struct reach_question *q);
	void (*cancel)(void *arg, struct reach_question *q); /* it is not decided any more */
	/* Whether that would be decided with yes, without asking anybody. */
	bool (*stands)(void *arg, const struct object *pod, const char *host);
	/* A host was refused that is in none of its places. */
	void (*refused)(void *arg, const struct object *pod, const char *host);
	void *arg;
};

struct reach_spec {
	struct loop *loop;
	struct client *client;
	const struct instance *instance;
	int run_fd; /* where it is kept who is limited, and leases; -1: nowhere */
	const struct reach_judge *judge; /* copied; NULL: nobody is ever limited */
	/* The rules are to change. Not called before the loop has turned. */
	void (*load)(void *arg, struct bytes *rules, unsigned number);
	void *arg;
};
struct reach *reach_new(const struct reach_spec *spec);
void reach_free(struct reach *r); /* NULL is fine */
/* Borrowed, see struct firewall_rules. NULL: nobody is limited. */
struct bytes *reach_rules(const struct reach *r);
unsigned reach_number(const struct reach *r);
void reach_in_force(struct reach *r, unsigned number); /* the packet filter has these rules */
void reach_changed(struct reach *r);                   /* the judge may decide otherwise now */
void reach_forget_judge(struct reach *r);              /* it ends: nothing changes any more */

/* Names */

/* place: of the address in the instance's pool. REACH_UNKNOWN: nobody knows it yet, and it is not
 * to be answered. */
enum reach_state reach_state(const struct reach *r, unsigned place);
/* Whether the host is in one of its places; if not, that is recorded. */
bool reach_has_place(struct reach *r, unsigned place, const char *host);
void reach_ask(struct reach *r, unsigned place, const char *host, struct reach_question *q);
void reach_cancel(struct reach *r, struct reach_question *q);

/* Until leases are in force. Zero but for done before its use. */
struct reach_wait {
	struct list on;
	unsigned number; /* of the rules that have them; 0: they are not made yet */
	void (*done)(struct reach_wait *w);
};
enum {
	REACH_ADDRS_MAX = 16, /* of one answer */
};
struct reach_found {
	const char *host;
	const struct ip *addrs; /* REACH_ADDRS_MAX at most */
	size_t n;
	bool ours; /* the name is one of the cluster: then sandboxes count, and nobody else */
};
/*
 * The host was found to have these addresses. Those that count become leases; done() is called when
 * they are in force, never from within. False: the sandbox is not limited any more.
 */
bool reach_lease(struct reach *r, unsigned place, const struct reach_found *f,
		 struct reach_wait *w);
void reach_wait_cancel(struct reach_wait *w);

void reach_metrics(const struct reach *r, struct buf *out);
