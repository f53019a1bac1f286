/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct json_doc;
struct kinds;

/*
 * A data directory as a whole: who has it, whether its store is there, its backup, its restoration
 * and its inspection. All of these block; none needs a loop or a server.
 */

/* Nobody else may have the directory. ERR_CONFLICT: somebody has, and the text says who. */
must_use struct err *data_lock(const char *data_dir, int *ret_fd);
/* Writes down who has it and for what: "cay serve pid 7 at https://127.0.0.1:6443". */
void data_lock_tell(int fd, const char *command, const char *address); /* address NULL: none */

/* The process that has a directory. pid 0: nobody has. */
struct data_holder {
	pid_t pid;
	int pidfd; /* the caller's; -1 if nobody has it */
	char text[256];
};
/*
 * A process number that was written down proves nothing: the one that it names now must have the
 * lock file open. ERR_NOT_FOUND: somebody has the lock, and no process here is it.
 */
must_use struct err *data_holder_find(const char *data_dir, struct data_holder *ret);

/* ERR_NOT_FOUND: an instance lived in data_dir, and its store is missing. */
must_use struct err *data_presence_check(const char *data_dir);

/* How far a long step is, in bytes; all 0: unknown. fn may be NULL. */
struct data_progress {
	void (*fn)(void *arg, const char *what, uint64_t done, uint64_t all);
	void *arg;
};

/* What a backup says of itself, and of what it was made from. */
struct data_backup_facts {
	uint64_t rev, id, bytes; /* bytes: of the archive */
	uint64_t objects;
	unsigned schema;
	char created[40], version[64];
};

struct data_backup {
	const char *data_dir, *file;
	bool force; /* replace the file if it is there */
	struct data_progress progress;
};
/* The file appears when it is complete and on the disk. A server may be running. */
must_use struct err *data_backup(const struct data_backup *b, struct data_backup_facts *ret);

struct data_restore {
	const char *file, *data_dir;
	bool force; /* replace the store and the keys of the directory */
	struct data_progress progress;
};
/*
 * ERR_CONFLICT: a server has the directory, or its sandboxes are those of another store;
 * ERR_EXISTS: it has a store, and force is not set; ERR_CORRUPT: the archive is not what was
 * written. After any error the directory is as it was.
 */
must_use struct err *data_restore(const struct data_restore *r, struct data_backup_facts *ret);
/* Completes a restoration that was interrupted after it was decided. The lock must be held. */
must_use struct err *data_restore_finish(const char *data_dir, bool *ret_did);
bool data_restore_pending(const char *data_dir);

/*
 * What is wrong with the objects and keys of a directory: {"dataDir", "server": "pid 7 at …" or
 * null, "revision", "schema", "objects", "findings":[{"severity": "fault"|"note", "what",
 * "message", "fix"}]}. A server may be running. An error means that nothing could be looked at.
 */
must_use struct err *data_check(const char *data_dir, struct kinds *kinds, struct json_doc **ret,
				size_t *ret_faults);
