/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"

struct buf;
struct ed25519;
struct loop;

/*
 * The record of who did what: one line of JSON for each write through the API and each entry into a
 * sandbox. Every part of the process that lets somebody do something hands its records over here,
 * and nothing else writes them.
 *
 * Lines are written in the order in which they were handed over: by a job, or on the loop when
 * somebody waits for them and it is one small write to a file. What a file does not take is kept
 * and tried again; when more than AUDIT_PENDING_MAX bytes wait, further records are dropped, and a
 * line says how many.
 */
enum {
	AUDIT_PENDING_MAX = 8 * 1024 * 1024,
	AUDIT_TEXT_MAX = 512,  /* bytes of a text that a client chose; the rest is left out */
	AUDIT_NOTE_MAX = 4096, /* bytes of what a policy found */
};

struct audit;

struct audit_spec {
	const char *path;   /* "-": standard output, which is never rotated */
	uint64_t max_bytes; /* a file that has them becomes PATH.1, and a new one is begun */
	unsigned keep;      /* older files: PATH.1 is the youngest */
	/* Signs checkpoints and the end of the chain (chain.h); outlives it. NULL: nobody does. */
	const struct ed25519 *key;
	/* On the loop: lines cannot be written (e), or they can be again (NULL). May be NULL. */
	void (*trouble)(void *arg, const struct err *e);
	void *arg;
};
must_use struct err *audit_open(struct loop *l, const struct audit_spec *spec, struct audit **ret);
void audit_free(struct audit *a); /* waits until what was handed over is written, or cannot be */
AUTOPTR(audit)

/* A key, which is a constant of ours, and a text. */
struct audit_note {
	const char *key, *text;
};

/* Texts are borrowed. NULL and "": not known, or there is none; it is left out. */
struct audit_record {
	const char *user;
	const char *as;   /* whom the user impersonates */
	const char *from; /* the peer's address */
	const char *verb; /* as in a Role: "create", "delete"; "connect" for ports of a sandbox */
	const char *group, *resource, *sub, *ns, *name;
	const char *pod; /* to which a Service led */
	unsigned port;
	bool dry_run;
	int status;                     /* of HTTP; 0: none */
	const char *note;               /* why it was refused */
	uint64_t received, sent;        /* bytes, of a connection that has ended */
	const struct audit_note *notes; /* what policies found; the last has no key. NULL: none */
	usec took;
};
void audit_write(struct audit *a, const struct audit_record *r); /* a may be NULL: no record */

/*
 * For what must not begin before it is on record: done() is called once, on the loop and never from
 * within audit_after(), when every record that was handed over before is in the file, or with an
 * error (taken over) when it cannot be written now. Zero but for done before its use.
 */
struct audit_wait {
	struct list on; /* of the audit */
	void (*done)(struct audit_wait *w, struct err *e);
	uint64_t n;
	bool lost; /* a record was, just before: it may have been the one that is waited for */
};
void audit_after(struct audit *a, struct audit_wait *w); /* a is not NULL */
void audit_after_cancel(struct audit_wait *w);           /* fine if it is over, or never began */

/* For whoever reads the file: told on the loop when more of it has been written. */
struct audit_listener {
	struct list on; /* of the audit */
	void (*written)(struct audit_listener *l);
};
void audit_listen(struct audit *a, struct audit_listener *l); /* a is not NULL */
void audit_unlisten(struct audit_listener *l); /* fine if it does not listen; not from written() */

/*
 * For whoever needs file and head as they belong together: look() is called once in the thread that
 * writes, when everything that was handed over before is on disk, or cannot be written; nothing is
 * written while it runs, so it must be quick. Then done() is called, on the loop. There is no way
 * back: it is in place until then.
 */
struct audit_look {
	struct list on; /* of the audit */
	void (*look)(struct audit_look *l);
	void (*done)(struct audit_look *l);
};
void audit_look(struct audit *a, struct audit_look *l); /* a is not NULL */

struct audit_counts {
	uint64_t written, lost; /* records */
};
struct audit_counts audit_counts(const struct audit *a);
