/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "cli/bench/stats.h"
#include "json/json.h"

struct http_exchange;
struct http_pool;
struct loop;
struct map;
struct settings;
struct tls_ctx;
struct websocket_dial;
struct websocket_dial_events;

/*
 * A bench run: a namespace of its own on the server that the kubeconfig names, scenarios one after
 * the other, and a report that states the conditions under which the figures were measured. Times
 * are in microseconds.
 */
struct bench;

/* api.c: connections */

/* Where the API is and who we are. */
struct api {
	struct loop *loop;
	char *addr;          /* "127.0.0.1:6443" */
	char *host;          /* the same as the kubeconfig has it */
	char *name;          /* without the port, to verify the certificate */
	char *authorization; /* NULL: by certificate */
	struct tls_ctx *tls; /* NULL: plain HTTP, as the router speaks it */
	/* Connections are nobody's where we are root: the router asks root for nothing. */
	bool stranger;
};
must_use struct err *api_open(struct loop *l, const char *kubeconfig, struct api *ret);
void api_done(struct api *a);

/* A connection that stays open, with one request at a time. */
struct lane {
	const struct api *api;
	struct http_pool *pool;
};
void lane_init(struct lane *l, const struct api *a);
void lane_close(struct lane *l); /* the next request connects anew */
void lane_done(struct lane *l);

/* A request. done() may start the next one on the same lane. */
struct call {
	void (*done)(struct call *c);
	/* Not NULL: gets the answer line by line, which is not kept then. */
	void (*line)(struct call *c, const char *text, size_t len);
	struct http_exchange *x; /* while under way */
	int status;
	struct buf body;
	struct err *err; /* there was no answer */
	bool over;
};
struct ask {
	const char *method, *path, *body; /* body NULL: none */
	const char *type;                 /* of the body; NULL: JSON */
	const char *accept;               /* NULL: anything */
	const char *sandbox, *ns;         /* for the router; NULL: none */
};
void call_start(struct call *c, struct lane *l, const struct ask *ask);
bool call_ok(const struct call *c);           /* answered, with 2xx */
struct err *call_error(const struct call *c); /* why it is not */
void call_done(struct call *c);               /* cancels it if need be */
/* A WebSocket into a Pod, on the connection that the lane has open. */
struct websocket_dial *lane_dial(struct lane *l, const char *path,
				 const struct websocket_dial_events *ev, void *arg);

/* bench.c: what a run consists of */

/* What the command measures: a sandbox as whoever claims it sees it, or the node that runs it. */
enum suite {
	SUITE_FLOOR, /* the floors alone */
	SUITE_CLAIM = 1,
	SUITE_NODE = 2,
	SUITE_EXEC = 4,  /* commands and files in a sandbox that runs */
	SUITE_TTI = 8,   /* time to interactive: from a claim to the output of its first command */
	SUITE_WAKE = 16, /* sandboxes that sleep */
	SUITE_ROUTER = 32, /* the router, which needs no server */
	SUITE_API = 64,    /* plain objects, on any API server */
	SUITE_GATE = 128,  /* agents beside users who are none */
};

/* A figure of its own beside the latencies: {"claims_per_s", 5012}. */
struct figure {
	const char *key;
	double value;
};

struct row {
	const char *scenario;
	const char *name;  /* "loop clients=8"; owned */
	const char *what;  /* "POST of a claim to its Ready event, one client" */
	const char *floor; /* names of the floors to divide by, like "tls+fdatasync"; or NULL */
	struct samples us;
	size_t n_failed;
	size_t n_cuts; /* times that the server ended the watch */
	struct figure figures[16];
	size_t n_figures;
	struct json_doc *writes; /* by verb and resource, for each operation; NULL: not known */
};

enum {
	SERVERS_MAX = 8 /* processes that are the server together */
};

struct bench {
	const struct settings *settings;
	enum suite suite;
	struct loop *loop;
	struct api api, router;
	struct lane lane; /* for everything that is not measured */
	struct lane watch_lane;
	struct call watch; /* of what the waits are about */
	char *watched;     /* its path */
	char *ns;
	bool has_ns, has_template, stopped; /* a signal came */
	struct map *waits;                  /* name → who waits for it to become Ready, borrowed */
	pid_t servers[SERVERS_MAX];         /* the first one's main thread is its loop */
	size_t n_servers;                   /* 0: not known */
	struct row *rows[64];
	size_t n_rows;
	struct json_doc *floor; /* NULL: not measured */
	double load_before;
	struct signal_watch *intr, *term;
};

struct row *bench_row(struct bench *b, const char *scenario, const char *name, const char *floor,
		      const char *what);
/* Adds the measurements of another program, and how ours compares with it; ours may be NULL. */
void row_peer(struct row *r, const struct json *us, struct row *ours);
void row_figure(struct row *r, const char *key, double value);
void bench_say(const struct bench *b, const char *fmt, ...) printf_like(2, 3); /* progress */
/* Turns the loop until *done is set; ERR_TIMEOUT, or ERR_UNAVAILABLE after a signal. */
must_use struct err *bench_until(struct bench *b, const bool *done, uint64_t timeout_ms);
must_use struct err *bench_pause(struct bench *b, unsigned ms);
/* A setting like "1,8,64". */
enum {
	LIST_MAX = 8
};
must_use struct err *bench_list(struct bench *b, const char *setting, unsigned *ret, size_t max,
				size_t *ret_n);

struct scenario {
	const char *name, *what;
	unsigned suites;
	struct err *(*run)(struct bench *b);
};
extern const struct scenario bench_scenarios[]; /* ends with a NULL name */

/* world.c: objects */

/* One request that must work, on the lane for what is not measured. ret may be NULL. */
must_use struct err *world_ask(struct bench *b, const struct ask *ask, struct json_doc **ret);
must_use struct err *world_open(struct bench *b); /* the namespace */
/* A Sandbox that runs commands, of a runtime class (NULL: the default), once it is Ready. */
must_use struct err *world_sandbox(struct bench *b, const char *name, const char *runtime_class);
/* Waits until the object there is Ready; what is how an error names it. */
must_use struct err *world_ready(struct bench *b, const char *path, const char *what);
void world_close(struct bench *b); /* removes the namespace, also after a signal */
must_use struct err *world_pool(struct bench *b, const char *name, unsigned n); /* filled */
must_use struct err *world_refill(struct bench *b, const char *pool, bool on);
/* Adds to the row how many members a pool has beyond those that the claims left. */
must_use struct err *world_refilled(struct bench *b, const char *pool, struct row *row,
				    int64_t left);
must_use struct err *world_pool_full(struct bench *b, const char *name, unsigned n);
/* Why a Pod does not start, if one of them cannot; to be asked when there was no progress for this
 * long. */
enum {
	TROUBLE_MS = 1000
};
must_use struct err *world_trouble(struct bench *b);
must_use struct err *world_scale(struct bench *b, const char *pool, unsigned n);
/* Deletes the n claims of a load. */
must_use struct err *world_unclaim(struct bench *b, const char *prefix, size_t n);
must_use struct err *world_empty(struct bench *b); /* claims, pools, Sandboxes and Pods are gone */

/* load.c: load */

/* Claims or Sandboxes that are made, awaited and perhaps deleted. */
struct load {
	const char *prefix; /* of their names; unique in the run */
	const char *pool;   /* NULL: Sandboxes without a pool */
	size_t n;
	unsigned clients;      /* connections; with a rate, they are opened as they are needed */
	double rate;           /* per second, whether or not earlier ones are Ready; 0: each client
				* starts its next one when the last is over */
	bool deletes;          /* each one when it is Ready, and waits for the answer */
	bool new_connections;  /* each one on a new connection */
	const char *command;   /* it is not over before the answer to this one; NULL: none */
	struct beside *beside; /* runs beside it; what it measures meanwhile goes to during */
	struct samples *during;

	/* Results */
	size_t n_cold;  /* claims that did not get a member of the pool */
	double wall_us; /* until the last one was Ready, or deleted if they are */
	char *sandbox;  /* of the claim that was Ready last; malloc'd */
};
must_use struct err *load_run(struct bench *b, struct load *spec, struct row *row);
double load_own_cpu_us(void); /* of this process so far: one that needs a core measures itself */
/* The same, and adds to the row what it cost, and how many a second there were, called rate. */
must_use struct err *load_measure(struct bench *b, struct load *spec, struct row *row,
				  const char *rate);

/* requests.c: requests of one form */

struct requests {
	const char *method, *accept; /* accept NULL: anything */
	const char *prefix;          /* of the names of objects */
	unsigned clients;
	size_t n; /* in all */
	/* Of the i-th, malloc'd. body NULL: none */
	char *(*path)(struct bench *b, const struct requests *r, size_t i);
	char *(*body)(struct bench *b, const struct requests *r, size_t i);
};
/* Adds to the row how many a second there were, and what they cost. */
must_use struct err *requests_run(struct bench *b, const struct requests *spec, struct row *row);

/* exec.c: commands */

/* Through the router; the answer says whether it ran. command: as JSON has it between quotes. */
void exec_command(struct bench *b, struct call *c, struct lane *l, const char *sandbox,
		  const char *command);
void exec_start(struct bench *b, struct call *c, struct lane *l,
		const char *sandbox); /* /bin/true */
/* It n times in a sandbox that runs. */
must_use struct err *exec_times(struct bench *b, const char *sandbox, size_t n, struct row *row);
/* Somebody who runs a command every few milliseconds, or sends a GET if there is no router. */
struct beside;
struct beside *beside_new(struct bench *b, const char *sandbox);
void beside_into(struct beside *s, struct samples *into); /* NULL: nowhere */
struct err *beside_error(const struct beside *s);         /* of the first that failed */
size_t beside_free(struct beside *s);                     /* how many failed */

/* host.c: the server as this machine sees it */

struct usage {
	bool known;
	double loop_us, loop_wait_us; /* of the main thread: on a CPU, and waiting for one */
	double cpu_us;                /* of all threads */
	double rss, mem_available;    /* bytes */
	struct map *writes;           /* "PATCH pods" → double *; NULL: not known */
};
/* Those of --server-pid, or the one that listens, if it is cay and on this machine. */
must_use struct err *host_find_servers(struct bench *b);
void host_usage(struct bench *b, struct usage *ret);
/* CPU time of the server's loop so far, which takes less to learn; 0: not known. */
double host_loop_us(const struct bench *b);
void usage_done(struct usage *u);
/* What n operations between the two cost each. */
void row_usage(struct row *r, const struct usage *was, const struct usage *now, size_t n);
void host_conditions(struct bench *b, struct json_doc *d, struct json *root);

/* Floors and report */

/* Runs a program of bench/, which is installed next to us; *ret is its JSON. more: further
 * arguments, NULL after the last; or NULL. */
must_use struct err *program_measure(struct bench *b, const char *name, unsigned runs,
				     const char *const *more, struct json_doc **ret);
struct json_doc *report_build(struct bench *b);
void report_print(const struct json *report);

/* Scenarios */

struct err *scenario_router(struct bench *b);    /* router.c */
struct err *scenario_growth(struct bench *b);    /* growth.c */
struct err *scenario_cells(struct bench *b);     /* cells.c */
struct err *scenario_loops(struct bench *b);     /* loops.c */
struct err *scenario_sustained(struct bench *b); /* loops.c */
struct err *scenario_burst(struct bench *b);     /* burst.c */
struct err *scenario_cold(struct bench *b);      /* cold.c */
struct err *scenario_exec(struct bench *b);      /* exec.c */
struct err *scenario_commands(struct bench *b);  /* commands.c */
struct err *scenario_files(struct bench *b);     /* files.c */
struct err *scenario_tti(struct bench *b);       /* tti.c */
struct err *scenario_runtimes(struct bench *b);  /* runtimes.c */
struct err *scenario_wake(struct bench *b);      /* wake.c */
struct err *scenario_policy(struct bench *b);    /* policy.c */
struct err *scenario_writes(struct bench *b);    /* objects.c */
struct err *scenario_lists(struct bench *b);     /* objects.c */
struct err *scenario_watches(struct bench *b);   /* watches.c */
struct err *scenario_import(struct bench *b);    /* import.c */
struct err *scenario_doors(struct bench *b);     /* doors.c */
struct err *scenario_crowd(struct bench *b);     /* crowd.c */
