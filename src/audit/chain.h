/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"

struct buf;
struct ed25519;

/*
 * The chain of an audit log. Each line has a number and the SHA-256 of the line before it, so that
 * no line can be changed, removed, added or moved without breaking it:
 *
 *   {"n":7,"prev":"<64 hex digits>","time":…}
 *
 * Beside records there are lines that begin a file, lines that say what is known to be missing,
 * and checkpoints, which the instance signs:
 *
 *   {"n":1,…,"begin":1}                       the first line of file 1
 *   {"n":8,…,"checkpoint":"<base64>"}         the signature of everything before it
 *   {"n":9,…,"torn":true}                     the line before was cut short by a crash
 *   {"n":5,…,"missing":{"n":9,"hash":"…"}}    the file ended before a line that was signed
 *
 * All of it is pure.
 */
/* In the data directory of an instance. */
#define AUDIT_KEY    "audit.key" /* signs; PEM */
#define AUDIT_PUBLIC "audit.pub" /* the public half, base64 */

enum {
	CHAIN_HASH_LEN = 65, /* hex digits with their NUL */
	CHAIN_EVERY = 1000,  /* lines between checkpoints */
};

struct chain {
	uint64_t n;                /* of the last line; 0: none */
	char hash[CHAIN_HASH_LEN]; /* of the last line */
	uint64_t segment;          /* number of the file */
	uint64_t since;            /* lines since the last checkpoint */
	const struct ed25519 *key; /* NULL: nothing is signed */
};
void chain_init(struct chain *c, const struct ed25519 *key);

/* What a checkpoint and a head sign. */
struct chain_head {
	uint64_t n, segment, oldest; /* oldest: the first file that is still kept */
	char hash[CHAIN_HASH_LEN];
};

/* Appends a line to out. rest is the line as it came, "{…}" without its end; the rest of the line
 * follows number and hash. */
void chain_add(struct chain *c, const char *rest, size_t len, struct buf *out);
void chain_add_begin(struct chain *c, usec now, struct buf *out);
void chain_add_checkpoint(struct chain *c, usec now, struct buf *out); /* nothing without a key */
void chain_add_torn(struct chain *c, usec now, struct buf *out);
void chain_add_missing(struct chain *c, usec now, const struct chain_head *h, struct buf *out);

/* The chain goes on after this line; false: it is no line of a chain. */
bool chain_follow(struct chain *c, const char *line, size_t len);
/* A line that cannot be read, as it is. */
void chain_follow_torn(struct chain *c, const char *line, size_t len);

/* The end of the chain, signed, as one line; it is kept beside the log, so that lines which are cut
 * off at its end are missed. */
void chain_head_write(const struct chain *c, uint64_t oldest, struct buf *out);
/* ERR_INVALID: it is not one, or (key not NULL) not signed with this key. */
must_use struct err *chain_head_read(const char *text, size_t len, const unsigned char *key,
				     struct chain_head *ret);

/*
 * Checks a chain line by line.
 */
struct chain_check {
	struct chain at;
	const unsigned char *key;      /* the public one; NULL: signatures are not checked */
	const struct chain_head *head; /* where it ended when it was last signed; NULL: unknown */
	uint64_t lines, checkpoints, signed_n; /* signed_n: covered by the last good signature */
	uint64_t faults;
	bool began; /* a line of a chain was seen */
	char *torn; /* a line that could not be read, if the last was one */
	size_t torn_len;
	/* what: one sentence. file and line: where, line counted from 1. */
	void (*fault)(void *arg, const char *file, uint64_t line, const char *what);
	void *arg;
};
void chain_check_line(struct chain_check *k, const char *file, uint64_t number, const char *line,
		      size_t len);
void chain_check_end(struct chain_check *k, const char *file); /* all files have been read */
void chain_check_done(struct chain_check *k);
