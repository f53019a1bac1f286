/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * The ways into a Pod: run a program, read the log, reach a port. The node implements them (in one
 * process); the server offers them to API clients. Every way goes through access_exec(),
 * access_logs() or access_dial(), so that one place can decide and record who goes in.
 */
struct access;
struct access_session;
struct audit;
struct buf;
struct loop;

struct access_target {
	const char *ns, *pod, *container; /* container NULL or "": the only one, or the default */
	const char *user;                 /* who asked, for the record; NULL: nobody */
	const char *from;          /* the address of their peer, for the record; may be NULL */
	const char *const *groups; /* of that user, NULL-terminated; NULL: none */
	const char *account_ns;    /* if it is a service account, its namespace */
	const char *by;  /* who asks in this user's name; NULL: the user. Endpoints only */
	int64_t expires; /* when their credential does, in seconds since 1970; 0: unknown. Likewise
			  */
};

struct access_events {
	/* fd 1 or 2. To slow it down call access_pause(). */
	void (*output)(void *arg, int fd, const char *data, size_t len);
	void (*drained)(void *arg); /* input may go on after access_full(); may be NULL */
	/* The end. e (borrowed): it could not start or was cut off. Otherwise code and signal are
	 * those of the process. The session is freed afterwards. */
	void (*ended)(void *arg, const struct err *e, int code, int signal);
	/* What the policy says while it decides. NULL: it goes where the command would complain. */
	void (*said)(void *arg, const char *text);
	void (*began)(void *arg); /* it was held, and now it runs; may be NULL */
};

/* How a command sees the files of its sandbox. */
enum access_view {
	ACCESS_VIEW_SHARED,    /* as they are */
	ACCESS_VIEW_READ_ONLY, /* and can change none, but in a /tmp of its own */
	ACCESS_VIEW_SCRATCH,   /* and what it changes is seen by nobody else, and not kept */
};

/* What a policy has granted. */
struct access_permit {
	const char *attachment; /* what it was granted by; NULL: by none */
	const char *uid;        /* of that object */
	enum access_view view;
	/* For the record: of the whole operation, and the Approval that allowed it; NULL: none. */
	const char *digest, *approval;
};

/* What an exec is to those who decide about it, where its arguments are not that: a tool that works
 * by a script of its own. */
struct access_deed {
	const char *tool;        /* NULL: the arguments are what it is */
	const char *const *argv; /* what its user wants to run, NULL-terminated; NULL: nothing */
	const char *path;        /* of the file that it is about; NULL: none */
	bool loose;              /* nobody makes sure that the path does not lead elsewhere */
};

struct access_exec_spec {
	struct access_target to;
	const char *const *argv; /* NULL-terminated */
	struct access_deed as;
	bool attach; /* to the container's own command, instead of argv */
	bool stdin_open, tty;
	bool probe; /* nobody's: it does not count as use of the Pod, and no policy is asked */
	uint16_t cols, rows;
	struct access_permit permit; /* for the implementation: callers leave it empty */
};
struct access_dial_spec {
	struct access_target to;
	uint16_t port;
	const char *sub; /* what it was asked for by, for the record; NULL: portforward */
};
struct access_log_spec {
	struct access_target to;
	bool follow, previous, timestamps;
	int64_t tail;        /* lines; < 0: all */
	int64_t since_us;    /* wall clock; 0: all */
	int64_t limit_bytes; /* 0: none */
};

/* What a container uses, or the whole machine. */
struct access_usage {
	int64_t at_us, window_us; /* when it was measured (wall clock), and since when */
	int64_t cpu_nano;         /* processors in that time, in billionths */
	int64_t memory, disk;     /* bytes */
	/* Since the start of the Pod; of a container alone. */
	int64_t cpu_us, memory_byte_s, disk_byte_s;
	int64_t received, sent; /* of the whole Pod */
};

/* Something whose use is counted: an attachment, or what a Pod uses beside its attachments. */
struct access_source {
	const char *uid;          /* of the Attachment or of the Pod */
	const char *ns, *sandbox; /* "": not known */
	bool attachment;
	bool over; /* nothing of it runs, and nothing of a Pod ever will */
	/* cpu_us, memory_byte_s, disk_byte_s, received and sent, in all; at_us. */
	struct access_usage used;
};

/* How a Pod is used. Times are of the monotonic clock. */
struct access_activity {
	/* The last time that somebody used it: bytes on its network, an exec, attach or forwarded
	 * port, processor time, a command that its runtime runs. As far as that was seen: what left
	 * only counters behind happened at some time since the call before this one. */
	int64_t last_us;
	bool frozen;
};

/* A frozen Pod was needed, and goes on. */
struct access_wake {
	const char *ns, *pod;
	const char *cause; /* static: "exec", "attach", "dial", "packet", "asked" */
	int64_t took_us;
};

struct access_ops {
	struct err *(*exec)(void *ctx, const struct access_exec_spec *spec,
			    const struct access_events *ev, void *arg, void **ret);
	struct err *(*logs)(void *ctx, const struct access_log_spec *spec,
			    const struct access_events *ev, void *arg, void **ret);
	struct err *(*dial)(void *ctx, const struct access_dial_spec *spec,
			    const struct access_events *ev, void *arg, void **ret);
	void (*write)(void *session, const void *p, size_t len);
	bool (*full)(void *session);
	void (*end_input)(void *session);
	void (*resize)(void *session, uint16_t cols, uint16_t rows);
	void (*pause)(void *session, bool paused);
	bool (*usage)(void *ctx, const struct access_target *of, struct access_usage *ret);
	bool (*activity)(void *ctx, const struct access_target *of, struct access_activity *ret);
	struct err *(*freeze)(void *ctx, const struct access_target *of);
	void (*thaw)(void *ctx, const struct access_target *of);
	void (*cancel)(void *session); /* kills what was started; ended() is not called */
	void (*detach)(void *ctx, const char *uid);
	void (*keep_attached)(void *ctx, bool (*keep)(void *arg, const char *uid), void *arg);
	bool (*attachment_usage)(void *ctx, const char *uid, struct access_usage *ret);
	void (*usage_each)(void *ctx, void (*fn)(void *arg, const struct access_source *s),
			   void *arg);
	void (*usage_settled)(void *ctx, const char *uid);
};
struct access *access_new(const struct access_ops *ops, void *ctx);
void access_free(struct access *a);
AUTOPTR(access)
/*
 * Who may go in: a policy is asked once for each exec, attach, logs and dial, before anything is
 * started. Without a policy everyone is let in.
 *
 * The answer may come at once or later. While it is open the session exists and waits: what its
 * client sends is kept, and a client that leaves takes the question back.
 */
struct access_ask {
	const char *way; /* "exec", "attach", "logs" or "dial" */
	const struct access_target *to;
	struct access_deed deed; /* its argv: of an exec; NULL for others */
	bool tty;
	uint16_t port; /* of a dial */
	/* All that an exec will read. False: it may read something that is not known yet. */
	bool input_known;
	const char *input;
	size_t input_len;
};
struct access_question {
	/* Exactly one of these, once; perhaps before the policy returns. */
	void (*allowed)(struct access_question *q, const struct access_permit *p); /* borrowed */
	void (*refused)(struct access_question *q, struct err *e);                 /* taken over */
	/* Not yet: ask again when the input is known. It has an end, and ACCESS_INPUT_MAX bytes at
	 * most; who does not end it or sends more is refused. */
	void (*after_input)(struct access_question *q);
	/* Before an answer that takes its time: what the client is told. */
	void (*say)(struct access_question *q, const char *text);
	void *state; /* the policy's own */
};
enum {
	ACCESS_INPUT_MAX = 1024 * 1024,
};
struct access_policy {
	struct loop *loop; /* from which late answers reach sessions */
	void (*ask)(void *arg, const struct access_ask *ask, struct access_question *q);
	void (*cancel)(void *arg, struct access_question *q); /* nobody waits for it any more */
	/* Whether what was allowed still is; asked by access_review(). */
	bool (*stands)(void *arg, const struct access_ask *ask, const struct access_permit *p);
};
void access_set_policy(struct access *a, const struct access_policy *p,
		       void *arg); /* p NULL: none */
/* Ends every session that its policy would no longer allow, with ERR_FORBIDDEN. Not from within a
 * callback of a session. */
void access_review(struct access *a);

void access_metrics(const struct access *a, struct buf *b); /* lines of /metrics */
/* Where each way in is recorded, let in or refused; NULL: nowhere. */
void access_set_audit(struct access *a, struct audit *log);

/*
 * A door: ports that belong to a part of this process and not to a Pod, under the name of a Pod.
 * is() is asked for every dial, before the node; ops has dial, write, full, end_input, pause and
 * cancel. One door at most; NULL takes it away.
 */
struct access_door {
	bool (*is)(void *ctx, const struct access_target *to);
	const struct access_ops *ops;
	void *ctx;
};
void access_set_door(struct access *a, const struct access_door *door);
bool access_is_door(struct access *a, const struct access_target *to);

/* ERR_NOT_FOUND: no such Pod or container; ERR_INVALID; ERR_UNAVAILABLE: it is not running.
 * Callbacks are called from the loop, never from within these. */
must_use struct err *access_exec(struct access *a, const struct access_exec_spec *spec,
				 const struct access_events *ev, void *arg,
				 struct access_session **ret);
must_use struct err *access_logs(struct access *a, const struct access_log_spec *spec,
				 const struct access_events *ev, void *arg,
				 struct access_session **ret);
must_use struct err *access_dial(struct access *a, const struct access_dial_spec *spec,
				 const struct access_events *ev, void *arg,
				 struct access_session **ret);
/* What a container uses; with pod NULL, the machine. No way in: nobody is asked, nothing is
 * recorded. False: it was not measured yet, or does not run. */
bool access_usage(struct access *a, const struct access_target *of, struct access_usage *ret);
/*
 * What was started by an attachment, in whichever Pod: all of it, also what left its session and
 * goes on in the background. It is known by the uid of the object, which is never another's.
 *
 * access_detach() ends it, with what its commands wrote to a scratch; it takes a moment.
 * access_keep_attached() does that for all whose attachments keep() does not want, those among
 * them that an earlier run of this process knew.
 */
void access_detach(struct access *a, const char *uid);
void access_keep_attached(struct access *a, bool (*keep)(void *arg, const char *uid), void *arg);
/*
 * What its commands have used in all, of what access_usage() counts for their containers: cpu_us,
 * memory_byte_s and disk_byte_s (of a scratch) only ever grow, and go on growing after a restart
 * where they were. cpu_us is exact: the kernel counts it, and the count is written down before it
 * is given up; only a process that is killed together with its sandbox, while this one is not
 * running, may be missing from its last look on. The others are means between two looks. False: it
 * has never run anything.
 */
bool access_attachment_usage(struct access *a, const char *uid, struct access_usage *ret);
/*
 * Every source of use that there is, or was and is not settled. What they have used only ever
 * grows, except by what two counters that are read one after the other differ in: whoever adds it
 * up keeps the most that it has seen. It is complete from the first time that measured() is called;
 * nothing is told before.
 *
 * A source that is over is kept until it is settled: somebody has written down all of it. It may be
 * told of once more after that, with the same numbers; when it is told of no more, it never will be
 * again. Whoever is told of thousands and settles none loses the oldest.
 */
void access_usage_each(struct access *a, void (*fn)(void *arg, const struct access_source *s),
		       void *arg);
void access_usage_settled(struct access *a, const char *uid);
/* Everything was measured just now, and written down. */
typedef void (*access_measured)(void *arg);
void access_set_measured(struct access *a, access_measured fn, void *arg); /* NULL: nobody */
void access_tell_measured(struct access *a); /* for the implementation */
/*
 * Sleep. None of these is a way in. activity() is false where nothing is known of the Pod; freeze()
 * stops its processes where they are until somebody needs it, be it by a way in, by a packet or by
 * access_thaw(): whoever set woken is told. ERR_UNSUPPORTED: the host or the runtime cannot;
 * ERR_UNAVAILABLE: not now.
 */
bool access_activity(struct access *a, const struct access_target *of, struct access_activity *ret);
must_use struct err *access_freeze(struct access *a, const struct access_target *of);
void access_thaw(struct access *a, const struct access_target *of);
typedef void (*access_woken)(void *arg, const struct access_wake *w);
void access_set_woken(struct access *a, access_woken fn, void *arg);   /* NULL: nobody */
void access_tell_woken(struct access *a, const struct access_wake *w); /* for the implementation */
/* A packet came for a Sandbox that idleness suspended and whose address is held: whoever set
 * knocked is told, again and again while more come. */
typedef void (*access_knocked)(void *arg, const char *ns, const char *sandbox);
void access_set_knocked(struct access *a, access_knocked fn, void *arg); /* NULL: nobody */
void access_tell_knocked(struct access *a, const char *ns, const char *sandbox);
void access_write(struct access_session *s, const void *p, size_t len);
bool access_full(struct access_session *s);
void access_end_input(struct access_session *s);
void access_resize(struct access_session *s, uint16_t cols, uint16_t rows);
void access_pause(struct access_session *s, bool paused);
void access_cancel(struct access_session *s);
