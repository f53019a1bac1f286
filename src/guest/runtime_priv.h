/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"

struct children;
struct http_headers;
struct http_request;
struct http_server;
struct loop;
struct timer;
struct wire_start;

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
	struct http_server *servers[2]; /* NULL: that port is not served */
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

const char *rt_env(const struct rt *rt, const char *name); /* NULL: not set */

/* Handlers. tail is the decoded path after the route's name; they answer r. */
void execute_serve(struct face *f, struct http_request *r, const char *tail);
void upload_serve(struct face *f, struct http_request *r, const char *tail);
void download_serve(struct face *f, struct http_request *r, const char *tail);
void list_serve(struct face *f, struct http_request *r, const char *tail);
void exists_serve(struct face *f, struct http_request *r, const char *tail);
void processes_serve(struct face *f, struct http_request *r, const char *tail);
void rest_files_serve(struct face *f, struct http_request *r, const char *tail);
void rest_health_serve(struct face *f, struct http_request *r, const char *tail);
void rest_metadata_serve(struct face *f, struct http_request *r, const char *tail);

/* Answers. */
void reply_json(struct http_request *r, int status, struct buf *body);
void reply_message(struct http_request *r, int status, const char *fmt, ...) printf_like(3, 4);
/* 403, 404 or 500, depending on e, which is freed. failed is like "File upload failed". */
void reply_error(struct http_request *r, struct err *e, const char *absent, const char *failed);

/* rest.c: errors below /v1. */
void rest_error(struct http_request *r, int status, const char *code, const char *fmt, ...)
	printf_like(4, 5);
void rest_refuse(struct http_request *r,
		 struct err *e); /* the status that fits e, which is freed */
void rest_no_route(struct http_request *r, const char *allow); /* 405; allow NULL: 404 */
void put_time(struct buf *out, int64_t at);                    /* "2026-01-02T03:04:05Z" */

enum reply_next {
	REPLY_MORE,
	REPLY_END,
	REPLY_TORN, /* there should be more, but it cannot be read */
};
struct reply_ops {
	enum reply_next (*more)(void *arg, struct buf *out); /* adds about RT_PIECE */
	void (*done)(void *arg); /* called once, whether or not everything was sent */
};
struct reply_head {
	int status;
	const struct http_headers *headers;
	int64_t length;
};
/* Sends what ops produce, at the pace of the peer. Without a head it is JSON of unknown length. */
void reply_stream(struct http_request *r, const struct reply_head *head,
		  const struct reply_ops *ops, void *arg);

/* files.c: sends a regular file, or the part of it that r asks for; takes fd. */
struct stat;
struct file_answer {
	int fd;
	const struct stat *st;
	const char *name; /* for Content-Disposition; NULL: none */
	bool conditions;  /* If-None-Match and its kin are obeyed */
};
void file_send(struct http_request *r, const struct file_answer *a);

/*
 * chore.c: work that blocks, in a process of its own that has fd and nothing else. done() is
 * called on the loop with what work() returned: 0 or an errno.
 */
struct chore {
	int (*work)(int fd, const char *name);
	void (*done)(void *arg, int errnum);
	void *arg;
};
void chore_run(struct rt *rt, const struct chore *c, int fd, const char *name);

/*
 * Text into JSON: bytes that are not UTF-8 become U+FFFD. Escapes from the beginning of in[0..len)
 * until at least max bytes (or all) are used; returns how many. newlines: \r\n and \r become \n.
 */
size_t json_escape(struct buf *out, const char *in, size_t len, size_t max, bool newlines);
void json_put_string(struct buf *out, const char *s); /* with its quotes */

/*
 * The directory that paths are confined to. A path is relative to it, even if it begins with
 * slashes; links are followed as long as they stay inside.
 */
struct base {
	int fd;
	char *real, *given;
};

must_use struct err *base_open(const char *path, struct base *ret);
void base_done(struct base *b);
/*
 * *ret: the same file without links, "." and ".."; it need not exist. An escape is ERR_FORBIDDEN.
 */
must_use struct err *path_resolve(const struct base *b, const char *path, char **ret);
/* Resolves and opens; if the path changes in the meantime, it still cannot lead outside. */
must_use struct err *path_open(const struct base *b, const char *path, int flags, int *ret);
/*
 * Cleans a path by its text alone, as sandboxd does: relative to the base, even if it begins with
 * the base's own path; "" is the base. ".." beyond the base is ERR_FORBIDDEN, but not in a path
 * that begins with a slash.
 */
must_use struct err *path_clean(const struct base *b, const char *path, char **ret);
/*
 * Where to put a file: the directory, created if it is missing, and the name in it, malloc'd.
 * ERR_INVALID: the path is the base itself.
 */
must_use struct err *path_place(const struct base *b, const char *path, int *ret_dir,
				char **ret_name);
/*
 * The directory that has an entry, and its name in it; if the entry is a link, that of the link.
 * path is clean and not "".
 */
must_use struct err *path_entry(const struct base *b, const char *path, int *ret_dir,
				char **ret_name);
/* Creates missing directories, then the file; an existing one is truncated. */
must_use struct err *path_create(const struct base *b, const char *path, int *ret);

/* POSIX quoting without a shell, like Python's shlex. *ret is NULL-terminated and malloc'd. */
must_use struct err *words_split(const char *text, char ***ret);
void words_free(char **words);
/*
 * True for a command that dash, bash and busybox would only split at its spaces and execute: its
 * first word names a program, and no character has a meaning to any of them.
 */
bool words_plain(const char *text);
