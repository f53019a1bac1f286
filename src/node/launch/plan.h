/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct arena;

/*
 * What turns a slot into a container: the root, its mounts, names and limits. Made by pod/ from
 * objects in memory, read by the launcher from a sealed memory file. Both go through one
 * table (plan.c), so a member cannot be written under one name and read under another.
 *
 * Nothing in a plan owns memory: strings and lists belong to the arena of whoever filled it in.
 */
enum {
	PLAN_MAX = 4 << 20, /* bytes of a plan */
};

struct plan_image {
	const char **lower; /* directories, top first, NULL-terminated */
	bool host_usr;      /* the machine's /usr comes on top */
	const char *usr;    /* a layer over that /usr, which can then be written to; NULL: none */
};

/* What a mount of the host must be; the values are in plans, which one program writes and reads. */
enum plan_host {
	PLAN_HOST_NONE, /* it is none: the directory is ours */
	PLAN_HOST_ANY,  /* a directory or a regular file */
	PLAN_HOST_DIR,
	PLAN_HOST_FILE,
	PLAN_HOST_DIR_MADE, /* made where it is missing */
	PLAN_HOST_FILE_MADE,
};

struct plan_mount {
	const char *to;   /* in the container */
	const char *from; /* a directory of the host; NULL for memory */
	const char *sub;  /* below from; NULL: all of it */
	bool file;        /* from/sub is a file */
	bool make;        /* make from (and sub) where it is missing */
	bool readonly;
	bool noexec;
	bool spare;    /* where it cannot be mounted, the container goes without it */
	bool memory;   /* a tmpfs of its own */
	bool own;      /* no other Pod sees it; only for the runtime, and not written */
	int64_t size;  /* of the tmpfs, or of the directory if it is made; 0: the default */
	int64_t group; /* fsGroup for what is made; 0: none */
	int64_t host;  /* enum plan_host; then from is the directory that the operator allows */
};

struct plan_limits {
	int64_t memory;    /* bytes; 0: none */
	int64_t cpu;       /* thousandths of a CPU; 0: none */
	int64_t cpu_share; /* thousandths requested, for the weight; 0: least */
	int64_t pids;
	int64_t disk;      /* bytes of the container's layer; 0: the node's default */
	int64_t oom_score; /* host/oom.h */
};

/* An OCI runtime that makes the container instead of the slot. */
struct plan_oci {
	const char *program; /* NULL: the slot becomes the container by itself */
	const char *style;   /* of its command line, see oci.c */
	const char **args;   /* for every command; NULL-terminated */
};

struct plan {
	struct plan_image image;
	bool readonly; /* the root file system */
	bool join;     /* the IPC and UTS namespaces of the Pod's first container too */
	const char *hostname;
	const char *etc_hostname, *etc_hosts, *etc_resolv_conf; /* contents */
	const char *workdir; /* made where it is missing; NULL: none */
	struct plan_limits limits;
	struct plan_oci oci;
	struct plan_mount *mounts; /* outer ones first */
	size_t n_mounts;
};

/* A sealed memory file that holds the plan. ERR_TOO_LARGE: it would have more than PLAN_MAX bytes.
 */
must_use struct err *plan_to_memfd(const struct plan *p, int *ret_fd);
/* Everything in *ret is in the arena. ERR_MALFORMED, ERR_TOO_LARGE. */
must_use struct err *plan_from_fd(int fd, struct arena *a, struct plan *ret);
/* The same from memory: what plan_from_fd() does with the bytes it has read. */
must_use struct err *plan_from_text(const char *text, size_t len, struct arena *a,
				    struct plan *ret);

/* Whether what runs it has a kernel of its own, to which no socket of the host leads. */
bool plan_oci_own_kernel(const struct plan_oci *oci);

/*
 * The capabilities that a container may have, and has unless it drops them: those that container
 * runtimes give, but neither NET_RAW nor MKNOD. They count in the sandbox's own user namespace
 * only, which owns nothing of the host. A name may begin with "CAP_". The bit number, or -1 for any
 * other name.
 */
int plan_capability(const char *name);
uint64_t plan_capabilities(void);         /* the bits of all of them */
const char *plan_capability_at(size_t i); /* their names, without "CAP_"; NULL: no more */

bool plan_image_equal(const struct plan_image *a, const struct plan_image *b);
struct plan_image *plan_image_copy(const struct plan_image *i, struct arena *a);
