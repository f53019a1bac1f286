/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "node/host/instance.h"

struct arena;
struct buf;
struct container;
struct diskpool;
struct map;
struct pod;
struct pods;
struct runtime_end;
struct runtime_usage;

/*
 * What containers have used, from the start of their Pod to its end.
 *
 * The kernel counts per task and from zero. A meter adds up the tasks of a container, and knows
 * which task it counts and whether that has been added up: no task is counted twice, whatever was
 * written down last.
 */
struct meter {
	char *task;            /* counted now or last; NULL: there was none */
	bool over;             /* it has ended, and is in the sums */
	int64_t cpu_usec;      /* of the tasks that are over */
	int64_t task_cpu_usec; /* of this one, when it was last looked at */
	int64_t memory_byte_s, disk_byte_s;
	int64_t memory, disk; /* when it was last looked at */
	int64_t at;           /* usec, monotonic: until then all is counted */

	/* Of the last look of this run of the daemon. */
	int64_t looked;      /* usec, wall clock; 0: there was none at this task */
	int64_t window_usec; /* since the one before */
	int64_t cpu_nano;    /* processors in it, in billionths */
};

void meter_done(struct meter *m);
void meter_task(struct meter *m, const char *task, int64_t now); /* it is counted from now on */
void meter_look(struct meter *m, const struct runtime_usage *u, int64_t now);
void meter_end(struct meter *m, const struct runtime_usage *u, int64_t now);

/* A Pod's traffic: of the networks that it had before, and of the one that it has. */
struct net_meter {
	int64_t received, sent;
	int64_t net_received, net_sent;
};

/* What is written down, in <data_dir>/node/usage.json. */
struct usage_sums {
	int64_t cpu_usec, memory_byte_s, disk_byte_s, received, sent;
};
struct usage_container_record {
	const char *name;
	struct meter meter; /* task is borrowed */
};
struct usage_pod_record {
	const char *uid, *ns, *sandbox;
	struct net_meter net;
	struct usage_sums attached; /* the part of it that is its attachments' */
	struct usage_container_record *containers;
	size_t n_containers;
};
/*
 * usage_attached.c: what was used by attachments, within what containers used. The kernel counts in
 * a part of each task, and anew if the part is made anew: a meter for each task counts the parts of
 * one attachment there, and is added up when the task ends or the part is given up.
 */
struct attached {
	char *uid, *ns, *sandbox;                     /* where it was used; NULL: not known */
	int64_t cpu_usec, memory_byte_s, disk_byte_s; /* of meters that are over */
	int64_t seen;                                 /* usec, wall clock: last used */
	struct attached_meter {
		char *task;
		struct meter meter;
	} *meters;
	size_t n_meters;
	bool settled; /* somebody has written down what it used, and nothing was used since */
	bool leaving; /* the file that is being written is without it */
};
struct map *attached_new(void); /* uid → struct attached, owned */
/* wall: of now, by the wall clock. */
struct attached_time {
	int64_t now, wall;
};
/* It is counted from now on, though nothing is known of it before the first look. */
void attached_begin(struct map *m, const char *task, const char *uid, struct attached_time t);
void attached_look(struct map *m, const struct runtime_usage *u, struct attached_time t);
/* False: it has been added up, or was never counted. */
bool attached_counts(const struct map *m, const char *task, const char *uid);
void attached_end(struct map *m, const struct runtime_usage *u, struct attached_time t);
/* What was counted in parts that are gone is added up: stands() says which are not. */
void attached_close(struct map *m, bool (*stands)(void *arg, const char *task, const char *uid),
		    void *arg, struct attached_time t);
/* Forgets those that were used longest ago, if there are too many. How many it has forgotten. */
size_t attached_trim(struct map *m);
struct access_usage;
bool attached_sum(const struct map *m, const char *uid, struct access_usage *ret);
void attached_restore(struct map *m, const struct attached *from); /* copies it */

/*
 * usage_sources.c: whose use it is. A Pod that is gone is kept as a source, with what it used
 * beside its attachments, until somebody has settled that.
 */
struct usage_over {
	char *uid, *ns, *sandbox;
	struct usage_sums used;
	int64_t at; /* usec, wall clock: when it went */
	bool settled, leaving;
};
struct usage_sources {
	struct map *over; /* uid of a Pod → struct usage_over */
	uint64_t n_lost;  /* sources that were too many, and are forgotten unsettled */
};
void usage_sources_init(struct usage_sources *s);
void usage_sources_done(struct usage_sources *s);
void usage_over_put(struct usage_sources *s, const struct usage_over *from); /* copies it */
/* Tells of Pods that are there, of those that are gone, and of attachments. */
struct usage_told {
	const struct map *pods, *attached;
	const struct usage_sources *sources;
	int64_t wall;
};
struct access_source;
void usage_sources_each(const struct usage_told *t,
			void (*fn)(void *arg, const struct access_source *s), void *arg);
/* True: there is such a source, and it is over. */
bool usage_sources_settled(struct usage_sources *s, struct map *attached, const char *uid);
/* Forgets those that are settled and that the last file was written without. */
void usage_sources_forget(struct usage_sources *s, struct map *attached);

struct usage_record {
	struct usage_sums gone;  /* of the Pods that are no more */
	struct usage_over *over; /* those among them that are not settled; strings are borrowed */
	size_t n_over;
	struct attached *attached; /* strings are borrowed */
	size_t n_attached;
	struct usage_pod_record *pods;
	size_t n_pods;
};
void usage_record_write(const struct usage_record *r, struct buf *out);
/* Everything in *ret is in the arena. ERR_MALFORMED. */
must_use struct err *usage_record_read(const char *text, size_t len, struct arena *a,
				       struct usage_record *ret);
/* ERR_NOT_FOUND: there is none yet. These block. */
must_use struct err *usage_record_load(const char *data_dir, struct arena *a,
				       struct usage_record *ret);
must_use struct err *usage_record_save(const char *data_dir, const char *text, size_t len);

/* usage_disk.c: what a Pod has on disk beside what its tasks have. */
struct disk_part {
	enum instance_dir dir;
	const char *name; /* in it */
};
struct pod_disk {
	const char *uid;
	struct disk_part *parts;
	size_t n;
	int64_t used;
};
struct pod_disk pod_disk_of(const struct pod *p, struct arena *a);   /* all of it is in the arena */
void pod_disk_look(const struct diskpool *pool, struct pod_disk *d); /* adds up. Blocks. */

/* Of all Pods: one timer, and one job that looks at all of them. */
struct usage;
/* data_dir NULL: nothing is written down. interval_ms 0: only usage_look() looks. */
struct usage *usage_new(struct pods *ps, const char *data_dir, uint64_t interval_ms);
void usage_pods_known(
	struct usage *u);         /* what was written down of others is of Pods that are gone */
void usage_stop(struct usage *u); /* waits for the job, and writes down what is known */
void usage_free(struct usage *u);
void usage_look(struct usage *u); /* now; nothing if a look is under way */
bool usage_looks(const struct usage *u);

void usage_restore(struct pod *p); /* a new one: with what was written down of it */
void usage_pod_gone(struct pod *p);
void usage_net_new(struct pod *p); /* it was given a network that has counted nothing yet */
void usage_started(struct container *c, const char *task);
void usage_ended(struct container *c, const struct runtime_end *end);
bool usage_of_attachment(const struct usage *u, const char *uid, struct access_usage *ret);
bool usage_of_container(const struct container *c, struct access_usage *ret);
bool usage_of_machine(const struct usage *u, struct access_usage *ret);
void usage_metrics(const struct usage *u, struct buf *b);
void usage_each(const struct usage *u, void (*fn)(void *arg, const struct access_source *s),
		void *arg);
void usage_settled(struct usage *u, const char *uid);

/* Between usage.c and usage_sources.c. */
struct usage_sums usage_sums_of(const struct pod *p); /* of all of it */
struct usage_sums usage_sums_less(struct usage_sums a, const struct usage_sums *b);
const char *usage_sandbox_of(const struct pod *p); /* NULL: of none */
struct usage_sums usage_sums_of_record(const struct usage_pod_record *r);
