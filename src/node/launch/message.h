/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "node/launch/plan.h"

struct arena;
struct buf;

/*
 * What daemon, launcher and slots say to each other over sequenced-packet sockets: one message
 * per packet, a JSON object with descriptors. A row of the table in message.c gives the name of
 * each type, its members and how many descriptors it carries.
 *
 *   daemon → launcher   setup, slot, net, net_check, net_peers, seat   each answered, in order
 *   launcher → daemon   ready, slot_made, net_made, net_as_new, net_peered, seat_made, refused
 *   slot → daemon       parked | failed
 *   daemon → slot       launch
 *   slot → daemon       launched, then its end: it has become cay-init
 *                       launched, failed: it could not; or failed alone
 *   seat → daemon       the same as a slot that was told to launch
 *
 * The socket of a slot closes when it becomes another program, so its end after "launched" confirms
 * the message. An end without any message means that the slot died.
 */
enum {
	MESSAGE_MAX = 64 * 1024, /* bytes */
	MESSAGE_FDS_MAX = 2,
};

enum message_type {
	MESSAGE_SETUP,
	MESSAGE_SLOT,
	MESSAGE_NET,
	MESSAGE_NET_CHECK, /* descriptor: a network namespace that was used */
	MESSAGE_NET_PEERS, /* descriptor: the network namespace of a sandbox */
	MESSAGE_SEAT,      /* descriptor: a pidfd of the sandbox's process */
	MESSAGE_READY,
	MESSAGE_SLOT_MADE, /* descriptors: the slot's socket, its pidfd */
	MESSAGE_NET_MADE,  /* descriptor: the network namespace */
	MESSAGE_NET_AS_NEW,
	MESSAGE_NET_PEERED,
	MESSAGE_SEAT_MADE, /* descriptor: its socket, over which it talks as a slot does */
	MESSAGE_REFUSED,
	MESSAGE_PARKED,
	MESSAGE_LAUNCH, /* descriptors: the plan; a namespace, or a pidfd whose namespaces to join
			 */
	MESSAGE_LAUNCHED,
	MESSAGE_FAILED,
	MESSAGE_TYPE_MAX_,
};

struct message_setup {
	const char *stage;     /* an empty directory; each slot mounts its own things there */
	const char *run;       /* directory of the sockets */
	const char *slots_dir; /* holds the slots' directories */
	const char *disk;      /* how they are made: the name of a struct diskpool_ops */
	int64_t disk_limit;    /* of a slot whose plan has none; 0: none */
	int64_t log_limit;     /* of its log */
	const char *init;      /* cay-init */
	const char *cgroup;
	const char *features; /* that the kernel has: features_names() */
};

struct message_slot {
	const char *name; /* of its control groups, its socket and its directory */
	uint32_t base;    /* first id of its range */
	bool expects;     /* image is the one that is expected next */
	struct plan_image image;
	int64_t oom_score; /* expected too; 0: any */
};

struct message_net {
	const char *name; /* of the link on the host's side */
	const char *addr, *gateway;
	const char *addr6, *gateway6; /* of IPv6; empty: none */
	bool egress;                  /* it may connect to public addresses */
};

struct message_check {
	const char *name; /* of its link on the host's side */
};

/* Lists of addresses, "A-B,C", of both families. */
struct message_peers {
	const char *name; /* of its link on the host's side */
	const char *out;  /* it may reach these, reserved or not */
	const char *in;   /* these may reach it */
};

/* How a seat sees the files of its sandbox; the words are in messages. */
enum seat_view {
	SEAT_SHARED,
	SEAT_READ_ONLY,
	SEAT_SCRATCH,
	SEAT_VIEW_MAX_,
};

/* A cay-init of its own in a sandbox that runs, for one of those who use it. */
struct message_seat {
	const char *name;    /* of its socket, below run; in a directory of the sandbox's own */
	const char *group;   /* its control group, within that of the sandbox */
	const char *scratch; /* the directory of what SEAT_SCRATCH writes; made if it is missing */
	int view;            /* enum seat_view */
	int pid;             /* of the sandbox's process */
	uint32_t base;       /* first id of the sandbox's range */
	int64_t disk;        /* bytes in scratch; 0: as many as a sandbox without a limit has */
};

struct message_made {
	const char *name; /* as it was asked for */
	int pid;          /* of a slot */
};

struct message_refused {
	const char *what; /* type of the request: "setup", "slot", "net", "net_check", "net_peers",
			     "seat" */
	const char *name;
	const char *text;
};

struct message_failed {
	const char *text;
};

struct message {
	enum message_type type;
	union {
		struct message_setup setup;
		struct message_slot slot;
		struct message_net net;
		struct message_check check; /* also of its answer, and of that to net_peers */
		struct message_peers peers;
		struct message_seat seat;
		struct message_made made;
		struct message_refused refused;
		struct message_failed failed;
	};
	int fds[MESSAGE_FDS_MAX]; /* -1: was taken */
	unsigned n_fds;
};

const char *message_type_name(enum message_type t);

/* The descriptors stay the caller's. */
must_use struct err *message_send(int fd, const struct message *m);

enum message_got {
	MESSAGE_NONE, /* not now: the socket does not block */
	MESSAGE_ONE,
	MESSAGE_END, /* the peer is gone */
};
/* Strings are in the arena; the descriptors are the caller's. ERR_MALFORMED, also when it lacks
 * the descriptors of its type. */
must_use struct err *message_recv(int fd, struct arena *a, struct message *ret,
				  enum message_got *ret_got);
void message_close(struct message *m); /* the descriptors that were not taken */

/* The text alone, without descriptors. ERR_TOO_LARGE. */
must_use struct err *message_write(const struct message *m, struct buf *out);
must_use struct err *message_read(const char *text, size_t len, struct arena *a,
				  struct message *ret);
