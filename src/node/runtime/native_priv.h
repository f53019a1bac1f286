/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "loop/jobs.h"
#include "loop/loop.h"
#include "node/launch/message.h"
#include "node/runtime/line.h"
#include "node/runtime/native.h"
#include "node/runtime/permits.h"
#include "node/runtime/runtime.h"

struct arena;
struct child;
struct guest_conn;
struct map;
struct native;
struct numbers;
struct timer;
struct watch;

enum {
	NO_RANGE = -1,
	SLOTS_FIRST_BASE = 16, /* in ranges: the host's own ids end long before 1 << 20 */
	ASKED_MAX = 4,         /* requests under way to one launcher: more would only compete */
};

/* launchers.c: the two launcher processes, so that slots and networks do not wait for each other.
 */
enum launcher_kind {
	LAUNCHER_SLOTS,
	LAUNCHER_NETS,
	LAUNCHER_KIND_MAX_,
};

struct launcher_proc {
	struct native *native;
	enum launcher_kind kind;
	struct child *child;
	int fd; /* -1: it is not there */
	struct watch *watch;
	struct timer *retry;
	unsigned n_asked; /* unanswered */
};

void launchers_start(struct native *n);
void launchers_stop(struct native *n); /* waits for their end */
bool launcher_ready(const struct launcher_proc *p);
void launcher_ask(struct launcher_proc *p, const struct message *request);
void launcher_pause(struct launcher_proc *p, unsigned ms); /* nothing is asked of it for a while */

/* slots.c: slots that are made ahead. */
struct native_slot {
	struct list on;
	struct native *native;
	char *id;
	unsigned range; /* of ids */
	pid_t pid;
	int pidfd, ctl;
	struct watch *watch;
	struct permit permit; /* until it is parked */
	bool ready;           /* it is parked */
};

struct slots {
	struct list parking, ready; /* struct native_slot */
	unsigned n_parking, n_ready;
	struct line line;
	struct arena *arena;
	struct plan_image *expected; /* in the arena: the image that was asked for last, or NULL */
	int64_t oom_score;           /* of the plan that was launched last; 0: none was */
};

void slots_init(struct native *n);
void slots_done(struct native *n);
void slots_fill(struct native *n);
uint32_t slots_base(unsigned range); /* the first id of a range */
bool native_has_slot(void *ctx, const struct plan_image *image, struct runtime_wait *w);
struct native_slot *slots_take(struct native *n, struct runtime_wait *w);
void slot_free(struct native_slot *s); /* the process is no longer its business; NULL is fine */
void slots_made(struct native *n, struct message *m);
void slots_refused(struct native *n, const struct message_refused *r);
void slots_launcher_lost(struct native *n);

/* nets.c: networks that are made ahead, or at an address that somebody had before. */
enum net_state {
	NET_QUEUED, /* somebody wants this address; the launcher is to be asked for it */
	NET_WANTED, /* the launcher was asked for it for somebody who wants this address */
	NET_ASKED,  /* the launcher was asked for it for the stock */
	NET_READY,  /* in stock */
	NET_KEPT,   /* made; whoever wanted this address has a moment to take it */
	NET_IN_USE,
	NET_PUT,     /* given back, but tasks still run in it */
	NET_UNUSED,  /* rests before it is looked at */
	NET_CHECKED, /* the launcher was asked whether it is as new */
	NET_SPENT,   /* closed with the next batch */
	NET_STATE_MAX_,
};

struct net {
	struct runtime_net face;
	struct native *native;
	enum net_state state;
	struct list on;       /* nets.in[state] */
	unsigned place;       /* in the address pool; 0: it is not ours to give back */
	int fd;               /* -1: not made yet */
	ino_t inode;          /* of an adopted one */
	unsigned users;       /* tasks that run in it */
	bool confined;        /* we made it, and nothing in it could pass a descriptor outside */
	bool opened;          /* policies opened something in its packet filter */
	bool shut;            /* to others, until its address is no longer reserved */
	bool peers_asked;     /* the launcher was told what, and has not answered yet */
	struct list peers_on; /* nets.peers_due, while it has to be told */
	usec unused_since;
	struct list waiters;  /* struct runtime_wait: who wants this address */
	usec kept_until;      /* for whoever wants this address and was called */
	struct permit permit; /* while it is being made */
};

struct nets {
	struct list in[NET_STATE_MAX_]; /* struct net */
	unsigned n[NET_STATE_MAX_];
	struct line line;
	struct map *held; /* address → the native: of an earlier run, not given away yet */
	bool *reserved;   /* by place: for one who will ask for it (nets_reserved.c) */
	struct timer *keep, *batch, *lull;
	usec last_taken;
	uint64_t as_new, worn; /* of those that were looked at */
	struct map *peers;     /* address → what policies open there, owned */
	struct list peers_due; /* struct net */
	bool peers_known;      /* what is not in there is nothing */
	unsigned retry_ms;     /* the last pause after a refusal; 0: the last network was made */
};

void nets_init(struct native *n);
void nets_done(struct native *n);
void nets_fill(struct native *n);    /* asks the launcher for what is wanted and what is missing */
void nets_line_up(struct native *n); /* who wants a certain address is called with the line */
void nets_made(struct native *n, struct message *m);
void nets_refused(struct native *n, const struct message_refused *r);
void nets_launcher_lost(struct native *n);
void nets_hold(struct native *n, const char *ip);
void nets_drop_held(struct native *n);
struct net *nets_find_inode(struct native *n, ino_t inode); /* among the adopted; NULL: none */
void net_join(struct net *net);                             /* a task runs in it */
/* Among those in any of some states. NULL: none. */
struct net *nets_find(struct native *n, unsigned in, unsigned place);
bool nets_clear(const struct native *n, unsigned place);                      /* see native_spec */
struct net *nets_find_named(struct native *n, unsigned in, const char *name); /* of its link */
void net_enter(struct net *net, enum net_state next);
void net_line_up(struct net *net); /* those who want its address now wait for any */
void net_free(struct net *net);
void net_succeed(struct net *net); /* frees it; another is made there for whoever waits for it */
struct runtime_net *native_net_take(void *ctx, const char *want_ip, struct runtime_wait *w);
struct runtime_net *native_net_adopt(void *ctx, struct runtime_task *t, const char *ip);

/* nets_reserved.c: addresses that are kept for somebody who has no network now. */
void nets_reserved_init(struct native *n);
void nets_reserved_done(struct native *n);
bool nets_reserved(const struct native *n, unsigned place);
/* The place becomes the caller's, who makes a network there; false: it is another's. */
bool nets_place_take(struct native *n, unsigned place, const char *ip);
void nets_place_put(struct native *n, unsigned place);
bool native_net_reserve(void *ctx, const char *ip, bool on);

/* nets_unused.c: what becomes of a network that nobody uses any more. */
void nets_unused_init(struct native *n);
void nets_unused_done(struct native *n);
bool nets_check_next(struct native *n); /* asks the launcher about one; false: there is none */
void nets_as_new(struct native *n, const char *name);
void nets_worn(struct native *n, const struct message_refused *r);
void nets_batch_later(struct native *n);            /* those that are spent wait for a moment */
void nets_vacate(struct native *n, unsigned place); /* whoever has this address lets it go */
void net_leave(struct net *net); /* the last one of a net that was put makes it unused */
void native_net_put(void *ctx, struct runtime_net *net);

/* nets_peers.c: what policies open in the packet filters of networks. */
void nets_peers_init(struct native *n);
void nets_peers_done(struct native *n);
void net_peers_taken(struct net *net);  /* somebody uses it now */
bool nets_peers_next(struct native *n); /* tells the launcher of one; false: there is none */
void nets_peered(struct native *n, const char *name);
void nets_not_peered(struct native *n, const struct message_refused *r);
void nets_peers_launcher_lost(struct native *n);

/* leave.c: the end of what a slot was. */
struct leave_spec {
	const char *id;
	int pidfd;     /* taken over; its end is waited for. -1: it has ended */
	int range;     /* given back when the control groups are gone; or NO_RANGE */
	bool keep_log; /* all of its directory goes but the log */
	bool kill;     /* there may be processes without a holder */
	bool swept;    /* counts for native.n_sweeping */
};
void leave(struct native *n, const struct leave_spec *spec);
bool leave_drop_log(struct native *n, const char *id); /* false: it is not leaving */
void leave_next(struct native *n);                     /* removals that waited for a permit */
void leave_abandon(struct native *n);                  /* what cannot be waited for any longer */

/* task.c */
enum task_state {
	TASK_RESERVED,
	TASK_LAUNCHING, /* the slot builds its root */
	TASK_STARTING,  /* cay-init was told to start the command */
	TASK_ATTACHED,  /* from an earlier run of the daemon; it was asked for its state */
	TASK_RUNNING,
	TASK_ENDING, /* its processes were killed */
	TASK_ENDED,
	TASK_STATE_MAX_,
};

struct runtime_task {
	struct native *native;
	enum task_state state;
	char *id;
	struct runtime_record record;
	bool owns_range, had_seats;
	int pidfd, ctl;
	struct watch *exit_watch, *ctl_watch;
	bool said_launched;
	struct guest_conn *guest;
	struct buf start; /* the frame that starts its command */
	struct net *net;
	bool frozen;           /* the daemon before us froze it, or we did */
	struct deferred found; /* tells of one that was found frozen */
	struct permit permit;  /* until its command runs */
	ino_t inode;           /* of the network namespace of an attached one */
	const struct runtime_events *events;
	void *arg;
};

/* state: the first, TASK_RESERVED or TASK_ATTACHED. Takes pidfd over. */
struct runtime_task *task_new(struct native *n, const struct runtime_record *r, int pidfd,
			      enum task_state state);
struct runtime_task *native_reserve(void *ctx, struct runtime_wait *w);
void native_watch(struct runtime_task *t, const struct runtime_events *ev, void *arg);
must_use struct err *native_launch(struct runtime_task *t, const struct runtime_launch *l);
must_use struct err *native_start(struct runtime_task *t, const struct wire_start *start);
void native_signal(struct runtime_task *t, int signum);
void native_kill(struct runtime_task *t);
must_use struct err *native_freeze(struct runtime_task *t, bool frozen);
bool native_frozen(const struct runtime_task *t);
bool native_ask_busy(struct runtime_task *t);
void native_release(struct runtime_task *t, bool keep_log);
void native_forget(struct runtime_task *t);

/* seats.c */
void seats_init(struct native *n);
void seats_done(struct native *n);
void seats_made(struct native *n, struct message *m);
void seats_refused(struct native *n, const struct message_refused *r);
void seats_launcher_lost(struct native *n);
void seats_found(struct runtime_task *t);     /* of an earlier run of the daemon */
void seats_task_over(struct runtime_task *t); /* what is left of them goes with it */
void seats_forget(struct runtime_task *t);    /* it is freed */
char *seats_group(const char *task, const char *key);
char *seats_scratch(const char *task, const char *key);            /* below the slots' directory */
void seats_remove_files(const struct native *n, const char *task); /* any thread; blocks */
must_use struct err *native_seat(struct runtime_task *t, const struct runtime_seat *spec,
				 struct runtime_seat_wait *w, const char **ret_id);
void native_seats_end(void *ctx, const char *key);
void native_seats_keep(void *ctx, bool (*keep)(void *arg, const char *key), void *arg);
void native_seats_each(void *ctx, void (*fn)(void *arg, const char *task, const char *key),
		       void *arg);
void native_seats_watch(void *ctx, const struct runtime_seats_events *ev, void *arg);
void native_seats_remove(void *ctx, const char *task, const char *key);

/* usage.c: from any thread */
void native_usage(void *ctx, struct runtime_usage *list, size_t n);
#define SEAT_GROUP "a-" /* begins the names of the parts of seats, before the key */
bool native_net_link(void *ctx, const struct runtime_net *net, char ret[16]);
must_use struct err *native_resize(void *ctx, const char *id, const struct plan_limits *l);
/* What a task used in all that has ended, whose control groups are still there. */
struct runtime_usage usage_of_ended(const struct native *n, const char *id);
void usage_of_parts(const struct native *n, const char *id, struct runtime_end *ret);

/* page_out.c: from any thread */
bool native_page_out(void *ctx, const char *id, const bool *stop);

/* attach.c: what an earlier run of the daemon left. */
void left_note(struct native *n); /* before anything new is made */
void left_free(void *left);
void native_hold(void *ctx, const struct runtime_record *r, const char *ip);
struct runtime_task *native_attach(void *ctx, const struct runtime_record *r,
				   struct runtime_end *ret_end);
void native_sweep(void *ctx, bool (*keep)(void *arg, const char *id), void *arg);
void native_swept_one(struct native *n); /* the last one lets held addresses go */

/* native.c */
struct native {
	struct runtime face;
	struct loop *loop;
	struct native_spec spec; /* launcher and init are copies */
	char *launcher, *init, *stage, *slots_dir;
	unsigned target;
	struct numbers *addresses, *ranges;
	struct launcher_proc launchers[LAUNCHER_KIND_MAX_];
	struct slots slots;
	struct nets nets;
	struct timer *refill;
	struct permits permits;
	struct map *tasks;                           /* id → struct runtime_task */
	struct map *seats;                           /* "task/a-key" → struct seat_group */
	const struct runtime_seats_events *seats_ev; /* NULL: nobody counts what they use */
	void *seats_arg;
	struct map *leaving;         /* id → struct leaving */
	struct list ends;            /* those of them that wait for a permit */
	struct map *left;            /* id → struct native_left, owned; NULL after the sweep */
	unsigned n_sweeping;         /* left ones that are leaving */
	struct jobs jobs;            /* the end waits for them */
	const struct line *troubled; /* the line that had trouble last, or NULL */
	bool ending;
};

/* l is the line of slots or of networks. text NULL: there is no trouble any more. */
void native_trouble_is(struct native *n, struct line *l, const char *text);
void native_refill(struct native *n); /* something was taken */
void native_refill_later(struct native *n);
/* Whether something may be made ahead now: what can be launched already comes first. */
bool native_may_make(const struct native *n);
