/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "json/json.h"

struct cgroups;

/*
 * The launcher, `cay launch`: a program with one thread that the daemon starts ahead of need. It
 * makes network namespaces and slots. A slot is a process that already is pid 1 of its own
 * namespaces, sits in its own control groups, owns a user namespace with an id range of its own,
 * and waits for a plan: then it builds the root and becomes cay-init. Nothing is forked, mapped or
 * attached while a Pod waits, and no file is made on a disk that may be busy: the slot's directory
 *
 *   roots/<slot>/upper, work, local   of the overlay and of the host image's /usr/local
 *   roots/<slot>/log                  of the container's output
 *
 * is made while parking, and so is the overlay, for the image that is most likely to be asked for.
 *
 *   daemon ── seqpacket ── launcher       {"op":"setup"|"slot"|"net", ...}
 *   daemon ── seqpacket ── slot           parked; plan in a sealed memfd; error, or its end
 *
 * The namespaces of a slot belong to the host's user namespace: the sandbox's root has no rights
 * over any of them.
 */
enum {
	LAUNCH_FD = 3, /* the launcher's socket */
	LAUNCH_MSG_MAX = 16 * 1024,
	LAUNCH_FDS_MAX = 4,
	ID_RANGE = 65536, /* user and group ids of a slot */
};

/* A message with descriptors. An empty one is the peer's end (*ret_len 0, *ret_n 0). */
struct launch_msg {
	char text[LAUNCH_MSG_MAX + 1];
	size_t len;
	int fds[LAUNCH_FDS_MAX];
	unsigned n_fds;
};
must_use struct err *launch_send(int fd, const char *text, size_t len, const int *fds,
				 unsigned n_fds);
must_use struct err *launch_send_json(int fd, const struct json *v, const int *fds, unsigned n_fds);
/* *ret_again: there is none now (a non-blocking socket). The descriptors are the caller's. */
must_use struct err *launch_recv(int fd, struct launch_msg *ret, bool *ret_again);
void launch_msg_close(struct launch_msg *m); /* the descriptors that nobody took */

/* What the launcher was told at its start; slots inherit it. */
struct launcher {
	char *stage; /* an empty directory; each slot mounts its own things there */
	int run_fd;  /* of the sockets */
	char *roots; /* of the slots' directories */
	int init_fd; /* cay-init */
	int host_ns; /* the host's network namespace */
	int nice;    /* that of the daemon, and of sandboxes */
	struct sock_fprog filter;
	struct cgroups *cgroups;
	struct netlink *nl; /* in the host's network namespace */
};

struct slot_spec {
	char *name;    /* of its control groups and socket */
	uint32_t base; /* first id of its range */
	int ctl;
	struct json *image; /* expected: {"lower": [..], "host_usr": bool} */
};
/* In the slot's process, just born. Does not return. */
noreturn_fn void slot_main(struct launcher *l, const struct slot_spec *spec);

/* What a slot holds between parking and launch. */
struct slot {
	struct launcher *l;
	const struct slot_spec *spec;
	int userns;
	int stage_fd;
	int dir_fd;  /* roots/<slot> */
	bool mapped; /* the last mount_clone() could be mapped to our ids */
	int root_fd; /* of an overlay for the expected image; -1: there is none */
};
/* launcher_root.c: the parts of a root that no plan changes (dev, proc), below the stage. */
must_use struct err *root_prepare(struct slot *s);
/* The slot's own directory, and the root of an image up to what only a plan knows. */
must_use struct err *root_make_dir(struct slot *s);
must_use struct err *root_mount_image(struct slot *s, const struct json *image, bool again);
/* From now on we make files as this id of the host, with our powers kept. */
must_use struct err *become(uint32_t id);
/* The root of a plan, complete and entered: it is "/" and nothing of the host is left. */
must_use struct err *root_enter(struct slot *s, const struct json *plan);

/* launcher_mount.c */
must_use struct err *mount_tmpfs(const char *at, const char *options, unsigned long flags);
/* A private copy of the mount at a directory or file, mapped to the slot's ids where it can be. */
must_use struct err *mount_clone(struct slot *s, int from_fd, bool readonly, int *ret_tree);
must_use struct err *mount_move(int tree, int to_fd);
/* Below root, made if absent, symbolic links staying inside. file: the target is a file. */
must_use struct err *root_open_target(int root, const char *path, bool file, int *ret);
/* plan "mounts": volumes and single files. */
must_use struct err *root_mount_volumes(struct slot *s, int root, const struct json *mounts);

/* seccomp.c: the filter of every sandbox, compiled once. filter->filter is malloc'd. */
must_use struct err *seccomp_compile(struct sock_fprog *ret);
must_use struct err *seccomp_install(const struct sock_fprog *filter);

/* netns.c: a network namespace with lo, eth0, its address and its way out. */
must_use struct err *netns_make(struct launcher *l, const char *ifname, uint32_t addr, uint32_t gw,
				int *ret);
