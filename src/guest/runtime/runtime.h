/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/list.h"

struct children;
struct http_server;
struct loop;
struct route;
struct timer;

/*
 * The python-runtime HTTP API, served by a process without privileges: it can do no more to the
 * sandbox than its callers can do by running a command.
 */
enum {
	RT_BODY_MAX = 4 * 1024 * 1024, /* of a request to run a command */
	RT_COMMANDS_MAX = 128,         /* at a time */
	RT_DRAIN_MS = 500,    /* for other processes' output, after the command has ended */
	RT_PIECE = 64 * 1024, /* of an answer in pieces */
};

struct rt {
	struct loop *loop;
	struct children *children;
	uint32_t *busy; /* how many commands run, for pid 1; NULL: it does not ask */
	struct http_server *servers[3]; /* NULL: that port is not served */
	struct timer *look;             /* checks whether anybody is still there */
	unsigned idle_looks;
	const char *const *env; /* the container's */
	const char **plain_env; /* the same with PWD, as a shell would pass it on */
	char *base;             /* where commands run and files are */
	char *rest_base;        /* the same for the sandboxd REST API */
	usec since;             /* when the runtime could first be asked */
	double limit_s;         /* for a command */
	bool words;             /* split commands into words ourselves; otherwise /bin/sh does it */
	unsigned n_commands;
	struct list executions; /* struct execution, the oldest first */
	uint64_t output_max;    /* bytes kept of each output of a command */
	uint64_t reattach_ms;   /* how long a command waits for a caller that left */
	struct list processes;  /* struct process, the oldest first */
	unsigned n_processes;
	uint64_t last_process; /* the number that was last given to one */
	size_t ring_max;       /* bytes kept of what a process writes */
};

/* A port of the runtime: what it serves, and where its paths begin. */
struct face {
	struct rt *rt;
	const struct route *routes;
	size_t n_routes;
	char *base;
	bool rest; /* errors are those of sandboxd */
};
