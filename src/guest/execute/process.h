/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "guest/execute/ring_priv.h"
#include "guest/execute/setting.h"

struct face;
struct http_request;
struct process;
struct rt;
struct sse;
struct timer;
struct watch;

/*
 * A process that outlives the request that started it. It has a number of its own, counted from 1
 * and never used again. Its output goes to a ring, never held up by those who read it.
 */
enum {
	PROCESSES_MAX = 64,
	PROCESS_INPUT_MAX = 64 * 1024,    /* pending; more is not read from those who send it */
	PROCESS_KEPT_MS = 10 * 60 * 1000, /* after its end */
};

enum process_channel {
	PROCESS_STDOUT = 1, /* the numbers of the descriptors */
	PROCESS_STDERR,
};

/*
 * Who takes the output as it comes, and holds the process up when it cannot. A process with a sink
 * is forgotten at its end, and nobody else needs to attend to it.
 */
struct process_sink {
	bool (*full)(void *arg);
	void (*data)(void *arg, enum process_channel channel, const char *data, size_t len);
	void (*over)(void *arg, const struct process *p); /* the last call */
};

struct process {
	struct list on; /* the runtime's; empty: deleted or unlisted, and only waited for */
	struct rt *rt;
	uint64_t id;                     /* 0: unlisted */
	json_t *argv;                    /* or the text of a command */
	const struct process_sink *sink; /* NULL: none */
	void *sink_arg;
	pid_t pid; /* 0: reaped */
	int status;
	bool over; /* reaped, and its output is complete */
	bool late; /* RT_DRAIN_MS have passed since it ended */
	bool timed_out, background;
	int64_t started_at, ended_at; /* seconds since 1970 */
	struct timer *timer;  /* for the time limit, then the drain, then until it is forgotten */
	struct timer *lonely; /* unless in the background: nobody has read it for a while */
	int tty;              /* master, for resizing; -1: none */
	struct process_out {
		struct process *p;
		int fd; /* -1: ended */
		struct watch *watch;
		enum process_channel channel;
		size_t owed;
	} out[2];
	struct ring ring;
	struct list readers; /* struct process_reader */

	int in; /* -1: closed or never open */
	struct watch *in_watch;
	struct buf input;
	bool input_end;
	struct list writers; /* struct process_writer */
};

/* Somebody who reads the output at a pace of their own. */
struct process_reader {
	struct list on; /* the process's */
	struct process *p;
	void (*push)(struct process_reader *rd); /* there is more, or the end; may free it */
	void (*drop)(struct process_reader *rd); /* the process is forgotten: free it */
};

/* Somebody who waits for the process to take its input. */
struct process_writer {
	struct list on;    /* the process's */
	struct process *p; /* NULL: it is gone */
	/* Pending input has become less, or is refused. */
	void (*settle)(struct process_writer *w);
};

struct process_wish {
	const char *base; /* where it runs, unless the setting says otherwise */
	const char *const *argv;
	json_t *shown; /* a new reference */
	struct setting setting;
	double limit_s; /* 0: none */
	bool background, input, tty;
	bool unlisted; /* it has no number; somebody must have a sink for it */
	uint16_t cols, rows;
	const struct process_sink *sink;
	void *sink_arg;
};

/* process.c */
must_use struct err *process_start(struct rt *rt, const struct process_wish *wish,
				   struct process **ret);
struct process *process_find(struct rt *rt, uint64_t id);
void process_signal(struct process *p, int signum);
void process_delete(struct process *p);  /* kills its group and forgets it and its sink */
void process_drained(struct process *p); /* its sink is no longer full */
void process_input(struct process *p, const char *data, size_t len);
void process_input_end(struct process *p);
/* Called when a reader has come or gone. */
void process_attended(struct process *p);

/* process_read.c */
void process_read(struct process *p, struct http_request *r, uint64_t from);
void process_reader_add(struct process *p, struct process_reader *rd);
void process_reader_del(struct process_reader *rd); /* of a process that goes on */
void process_tell_readers(struct process *p);       /* there is more output, or the end */
void process_drop_readers(struct process *p);

/* process_write.c */
void process_write(struct process *p, struct http_request *r);
void process_tell_writers(struct process *p); /* pending input has become less, or is refused */
void process_drop_writers(struct process *p);

/* process_ws.c */
void process_attach(struct process *p, struct http_request *r);

/* process_http.c */
void process_put(struct buf *out, const struct process *p);
/* Where to begin: after what the reader has had (Last-Event-ID), or where it asks for. */
bool process_offset_of(struct http_request *r, uint64_t *ret);
