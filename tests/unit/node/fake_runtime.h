/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "node/runtime/runtime.h"

/*
 * A runtime in memory. The test says how many slots and networks there are, and what becomes of
 * each task; nothing happens by itself.
 */
struct fake_runtime {
	struct runtime rt;
	unsigned slots, nets;            /* free ones */
	struct list slot_line, net_line; /* struct runtime_wait */
	struct list tasks;               /* struct fake_task, in the order of their birth */
	const char *trouble;
	int64_t received, sent; /* by every network */
	bool launch_fails;
	bool cannot_freeze, never_stops; /* freeze() fails; frozen() stays false */
	unsigned failing_thaws;          /* so many are to fail */
	unsigned n_ids, n_ips, n_held, n_held_ips, n_swept, n_dropped_logs, n_nets_put;
	const char *refused_ip; /* net_take() gives another */
	const char *given_ip;   /* net_take() gives this one; NULL: the next */
	struct map *reserved;   /* by net_reserve() */
	struct fake_part {
		const struct fake_task *of; /* NULL: there never was one */
		const char *key;
		int64_t cpu_usec;
		bool stands;
		bool readable; /* as by a look that began while it stood */
	} part;
	const struct runtime_seats_events *seats_ev;
	void *seats_arg;
};

enum fake_state {
	FAKE_RESERVED,
	FAKE_LAUNCHED,
	FAKE_TOLD, /* the start was written down */
	FAKE_STARTED,
	FAKE_GONE, /* nothing of it runs; ended() was told, or it ended while nobody watched */
};

struct fake_task {
	struct list on;
	struct fake_runtime *of;
	char id[16];
	struct runtime_record record;
	enum fake_state state;
	const struct runtime_events *ev; /* NULL: nobody watches */
	void *arg;
	char *argv0;
	uint64_t keep_caps;
	uint32_t flags; /* of its start */
	bool joins;     /* another task's namespaces */
	bool killed, released, log_kept, oom;
	bool frozen;        /* by freeze() */
	unsigned n_freezes; /* and how often it was */
	unsigned n_asked;   /* ask_busy() was called */
	int last_signal;
	unsigned n_starts; /* start() was called */
	struct runtime_usage used;
	int64_t memory_limit, cpu_limit; /* of the last resize(), which a job made */
};

void fake_runtime_init(struct fake_runtime *f);
void fake_runtime_done(struct fake_runtime *f);

unsigned fake_count(const struct fake_runtime *f);               /* tasks ever made */
struct fake_task *fake_task(struct fake_runtime *f, unsigned n); /* the nth, from 0 */
struct fake_task *fake_last(struct fake_runtime *f);

void fake_add_slots(struct fake_runtime *f, unsigned n); /* wakes as many waiters */
void fake_add_nets(struct fake_runtime *f, unsigned n);
void fake_trouble_is(struct fake_runtime *f, const char *text); /* calls everybody in line */
void fake_starting(struct fake_task *t); /* up to the moment before its guest is told */
void fake_idle(struct fake_task *t);     /* an attached one: its guest was never told */
void fake_start(struct fake_task *t);
void fake_part_begin(struct fake_task *t, const char *key); /* seats that are counted apart */
void fake_part_spent(struct fake_task *t);                  /* nothing runs in them */
void fake_lose(struct fake_task *t); /* its slot is gone before it was told anything */
void fake_fail(struct fake_task *t, int code);
void fake_exit(struct fake_task *t, int code); /* the command; what is left ends too */
void fake_end(struct fake_task *t);            /* killed, or the last process is gone */
