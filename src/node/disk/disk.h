/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "node/host/instance.h"

/*
 * Where sandboxes write. Uppers, logs, emptyDirs and persistent volumes live in the disk pool,
 * never in the file system of the store, and each is a directory that holds at most a given number
 * of bytes:
 *
 *   <pool>/roots/<slot>/disk   a slot's layer      <pool>/pods/<uid>/<name>   emptyDir
 *   <pool>/roots/<slot>/logs   a slot's log        <pool>/volumes/<uid>       persistentVolumeClaim
 *   <pool>/spare/<slot>        emptied, for a new slot
 *
 * By default the pool is a btrfs in a sparse file of the data directory, mounted at
 * <data_dir>/pool/fs; the operator may name a directory on a btrfs instead, or none at all. Then
 * the pool is the data directory itself, and nothing limits what is written there.
 */
struct diskpool;

/* How directories with a limit are made; one file for each implementation. These block. */
struct diskpool_ops {
	const char *name;
	bool enforces; /* limits are more than words */
	/* Makes a directory of mode 0700 for at most limit bytes, files and metadata; 0: any
	 * number. ERR_EXISTS. */
	must_use struct err *(*make)(const char *path, int64_t limit);
	/* Gives a directory that make() made another limit. One below what is in it already only
	 * stops further writes. */
	must_use struct err *(*limit)(int dir_fd, int64_t limit);
	/* A directory with all that is in from, which make() made, at once and without a copy; what
	 * is written to one later is not in the other. NULL: this pool has no such thing. */
	must_use struct err *(*clone)(const char *from, const char *path, int64_t limit);
	/* Removes a directory with all that is in it, whether make() made it or what is right
	 * below it, or neither. It need not exist. */
	must_use struct err *(*remove)(const char *path);
	/* The same, and what it took is free for others when this returns. */
	must_use struct err *(*give_back)(const char *path);
	/* Bytes that a directory has which make() made, as of a moment ago; 0: nobody counts. */
	int64_t (*used)(const char *path);
	/* Counts what was written up to now, and begins to free what was removed. */
	void (*sync)(const char *path);
	/* Keeps the directory of a slot, in which make() made all that there is, for another to
	 * take: emptied, so that nothing of the slot is left. Nobody may use it any more. False: it
	 * cannot be kept or is not worth it, and is to be removed. */
	bool (*keep)(const char *path);
	/* Makes one that was kept the directory of a new slot. What is in it has the limits of
	 * before. False: there is none. */
	bool (*reuse)(const char *path);
};
extern const struct diskpool_ops disk_btrfs, disk_plain;
const struct diskpool_ops *diskpool_ops_named(const char *name); /* NULL: there is none */

struct diskpool_spec {
	const struct instance *instance;
	const char *where;     /* NULL: an image file; "none": plain directories; or a directory */
	int64_t size;          /* of a new image file; 0: half of what is free, at most 64 GiB */
	int64_t sandbox_limit; /* of what has no limit of its own */
	int64_t log_limit;     /* of a container's log */
	bool allow_unenforced; /* limits are accepted where nothing enforces them */
};

/*
 * Mounts the pool, which is made first if there is none. Where an image file cannot be made, the
 * pool is plain and diskpool_trouble() says why. One that exists and cannot be mounted is an error:
 * there are volumes in it. Blocks.
 */
must_use struct err *diskpool_open(const struct diskpool_spec *spec, struct diskpool **ret);
/* A pool of plain directories without any limit, for tests. */
struct diskpool *diskpool_open_plain(const char *data_dir);
/* The pool as the last diskpool_open() left it, to look around in; changes nothing. */
struct diskpool *diskpool_look(const char *data_dir);
/* The longest part of a path that exists: where what is below it will be made. malloc'd. */
char *diskpool_existing(const char *path);
void diskpool_free(struct diskpool *d); /* leaves it mounted */
AUTOPTR(diskpool)
void diskpool_unmount(struct diskpool *d); /* nothing uses it any more. Blocks. */

const struct diskpool_ops *diskpool_ops(const struct diskpool *d);
bool diskpool_enforces(const struct diskpool *d);
const char *
diskpool_trouble(const struct diskpool *d); /* why it does not enforce limits; NULL: it does */
int64_t diskpool_sandbox_limit(const struct diskpool *d);
int64_t diskpool_log_limit(const struct diskpool *d); /* of the file */
/* Limits that nothing enforces are refused. */
bool diskpool_refuses_limits(const struct diskpool *d);

/* INSTANCE_SLOTS, INSTANCE_PODS or INSTANCE_VOLUMES in the pool. malloc'd. */
char *diskpool_dir(const struct diskpool *d, enum instance_dir dir);
/* The same in the data directory, where it was before there was a pool. NULL: nothing is there. */
char *diskpool_old_dir(const struct diskpool *d, enum instance_dir dir);
/* One of its directories: in the pool, unless it is in the old place. malloc'd. */
char *diskpool_path(const struct diskpool *d, enum instance_dir dir, const char *name);
/* Removes it from both places. Blocks. */
must_use struct err *diskpool_remove(const struct diskpool *d, enum instance_dir dir,
				     const char *name);
/* Gives it another limit; it need not exist. Blocks. */
must_use struct err *diskpool_limit(const struct diskpool *d, enum instance_dir dir,
				    const char *name, int64_t limit);
/* A copy of one directory under another name, as ops->clone() makes it; nothing if the first does
 * not exist or the second does. ERR_UNSUPPORTED: the pool has no copies, or the first is not in it
 * yet. Blocks. */
must_use struct err *diskpool_clone(const struct diskpool *d, const char *from, const char *name,
				    int64_t limit);
/* At a start, before anything is cloned: removes what a crash left of clones that were being made.
 */
void diskpool_drop_steps(const struct diskpool *d);
/* From the old place into the pool; nothing if it is not there. Nobody may use it meanwhile. After
 * a crash, the same call completes it. Blocks, for as long as a copy takes. */
must_use struct err *diskpool_move(const struct diskpool *d, enum instance_dir dir,
				   const char *name, int64_t limit);
/* Each name that dir has, in both places; names that begin with a dot are ours and left out. */
void diskpool_each(const struct diskpool *d, enum instance_dir dir,
		   void (*fn)(void *arg, const char *name), void *arg);
char *diskpool_slot_log(const struct diskpool *d, const char *slot); /* the path of a slot's log */

/* Whether it is one of the mounts that the image file of a data directory has on the host. */
bool diskpool_is_mount(const struct diskpool *d, const char *path);
/* The loop device of an image file; NULL: it has none. malloc'd. */
char *diskpool_loop(const struct diskpool *d);

/* Why the limits of this pool are not enforced, or those of one that is still to be made would not
 * be; NULL: they are, or would be. malloc'd. */
char *diskpool_obstacle(const struct diskpool *d);

/* Why the data directory cannot be made or written to; NULL: it can. malloc'd; changes nothing. */
char *diskpool_data_obstacle(const struct diskpool *d);

struct diskpool_space {
	int64_t total, free; /* bytes */
};
/* Of the pool, and of the file system that holds the data directory. Blocks. */
void diskpool_space(const struct diskpool *d, struct diskpool_space *ret_pool,
		    struct diskpool_space *ret_data);
/* What is used is counted up to now, and what was removed is being given back. Blocks. */
void diskpool_sync(const struct diskpool *d);
void diskpool_trim(const struct diskpool *d); /* an image file gives back what is free. Blocks. */

/* memory.c: mounts a file system of at most size bytes at a directory, unless it is mounted there.
 * It lies in memory, as a file of the tmpfs at dir, and its ids can be mapped. Blocks. */
must_use struct err *memory_disk_mount(const char *dir, const char *at, int64_t size);
void memory_disk_unmount(const char *at); /* if it is mounted */

/* trial.c: makes an image in a directory that has nothing else in it, and mounts it in the mount
 * namespace of the caller. *ret, malloc'd, is where. Blocks. */
must_use struct err *trial_disk_mount(const char *dir, char **ret);
void trial_disk_unmount(const char *dir); /* and removes it, if it is there */

/* Parts of a slot's directory. */
#define DISK_SLOT_LAYER "disk"
#define DISK_SLOT_LOGS  "logs"
#define DISK_SLOT_LOG   "logs/log"
