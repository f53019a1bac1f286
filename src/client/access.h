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

struct access_target {
	const char *ns, *pod, *container; /* container NULL or "": the only one, or the default */
	const char *user;                 /* who asked, for the record; NULL: nobody */
	const char *from;          /* the address of their peer, for the record; may be NULL */
	const char *const *groups; /* of that user, NULL-terminated; NULL: none */
	const char *account_ns;    /* if it is a service account, its namespace */
};

struct access_events {
	/* fd 1 or 2. To slow it down call access_pause(). */
	void (*output)(void *arg, int fd, const char *data, size_t len);
	void (*drained)(void *arg); /* input may go on after access_full(); may be NULL */
	/* The end. e (borrowed): it could not start or was cut off. Otherwise code and signal are
	 * those of the process. The session is freed afterwards. */
	void (*ended)(void *arg, const struct err *e, int code, int signal);
};

struct access_exec_spec {
	struct access_target to;
	const char *const *argv; /* NULL-terminated */
	bool attach;             /* to the container's own command, instead of argv */
	bool stdin_open, tty;
	bool probe; /* nobody's: it does not count as use of the Pod */
	uint16_t cols, rows;
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
};
struct access *access_new(const struct access_ops *ops, void *ctx);
void access_free(struct access *a);
AUTOPTR(access)
/*
 * Who may go in: asked once for each exec, logs and dial, before anything is started. way is
 * "exec", "attach", "logs" or "dial". An error refuses and is passed to the caller. NULL decide:
 * everyone is let in.
 */
typedef struct err *(*access_policy)(void *arg, const char *way, const struct access_target *to);
void access_set_policy(struct access *a, access_policy decide, void *arg);

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
