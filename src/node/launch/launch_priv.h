/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/ip.h"
#include "json/record.h"
#include "node/host/features.h"
#include "node/launch/launch.h"

struct cgroups;
struct diskpool_ops;
struct netlink;

extern const struct record_field plan_image_fields[]; /* plan.c; messages name images too */

/* What the launcher learned when it was set up; slots inherit it. */
struct launcher {
	char *stage;     /* an empty directory; each slot mounts its own things there */
	int run_fd;      /* of the sockets */
	char *slots_dir; /* holds the slots' directories */
	const struct diskpool_ops *disk;
	int64_t disk_limit, log_limit;
	int init_fd;   /* cay-init */
	int host_ns;   /* the host's network namespace */
	int host_pids; /* and its process namespace */
	int nice;      /* that of the daemon, and of sandboxes */
	bool scores;   /* a slot may lower its score for the OOM killer again */
	struct sock_fprog filter;
	struct features features; /* what the kernel can do, as far as it may be used */
	struct cgroups *cgroups;
	struct netlink *nl; /* in the host's network namespace */
	int proc;           /* a proc of our own, to set up and check networks; -1: none yet */
	unsigned n_proc;    /* networks that were set up or checked with it */
	uint64_t closed_files, closed_dirs; /* stage.c: what of proc needs no mask */
};

/* slot.c. In the slot's process, just born; ctl is its end of the socket. Does not return. */
noreturn_fn void slot_main(struct launcher *l, const struct message_slot *spec, int ctl);

/* What a slot holds between parking and launch. */
struct slot {
	struct launcher *l;
	const struct message_slot *spec;
	int ctl;
	int userns;
	int stage_fd;
	int dir_fd;  /* its layer: a directory with a limit, below slots_dir */
	int log_fd;  /* the directory of its log, with a limit too */
	bool mapped; /* the last mount_clone() could be mapped to our ids */
	int root_fd; /* of an overlay for the expected image; -1: there is none */
	bool root_ready;
	int64_t oom_score;     /* 0: still that of the launcher */
	bool restricted;       /* view_restrict() */
	int sock, log;         /* for cay-init */
	int null;              /* /dev/null, opened before anybody could put something else there */
	uint64_t *host_mounts; /* ids of mounts that show the host's own directories */
	size_t n_host_mounts;
};

/* The last steps of a slot: its descriptors, and from root of the host to cay-init of the sandbox.
 * They return only errors. */
must_use struct err *slot_open_socket(struct slot *s); /* at the slot's name, below run_fd */
must_use struct err *slot_place_descriptors(const struct slot *s);
must_use struct err *slot_become_init(struct slot *s);
noreturn_fn void slot_fail(const struct slot *s, struct err *e); /* tells the daemon */

/* seat.c. In a process just born, with the namespaces of the view; ctl is its end of the socket,
 * sandbox a pidfd. Does not return. */
noreturn_fn void seat_main(struct launcher *l, const struct message_seat *spec, int ctl,
			   int sandbox);
/* view.c: from now on "/" is the files of the sandbox, as they are seen in a view. */
must_use struct err *view_enter(struct slot *s, const struct message_seat *spec, int sandbox);
/* What a view that changes no files must not do either; just before the filter of all. */
must_use struct err *view_restrict(void);

/* userns.c */
must_use struct err *resources_limit(void); /* for all that follows */
/* userns.c: resource limits for all that follows, and s->userns, which counts them on its own. */
must_use struct err *userns_make(struct slot *s);
/* Whether a runtime that has joined it may make mount and process namespaces in it. */
must_use struct err *userns_open(struct slot *s, bool open_);

/* stage.c: the parts of a root that no plan changes (dev, proc), below the stage. */
must_use struct err *root_prepare(struct slot *s);
/* Called once, to learn which files of proc only root of the host can open. They need no mask;
 * masking them all the same would be a tenth of the work of parking. */
must_use struct err *root_look_at_proc(struct launcher *l);
const char *root_masked(size_t i); /* names below /proc that are masked; NULL: no more */
/* From here on nothing in proc/sys can be changed. */
must_use struct err *root_mask_proc(const struct launcher *l);
/* root.c: the slot's own directory, and the root of an image up to what only a plan knows. */
must_use struct err *root_make_dir(struct slot *s);
must_use struct err *root_mount_image(struct slot *s, const struct plan_image *image, bool again);
/* A layer below the stage, read-only. */
enum clone_ids {
	CLONE_IDS_SLOT,  /* ids on disk are those that the sandbox sees, where possible */
	CLONE_IDS_LAYER, /* likewise, of what becomes a part of an overlay */
	CLONE_IDS_HOST,  /* ids on disk are the host's: nobody's, inside */
};
must_use struct err *stage_layer(struct slot *s, const char *layer, enum clone_ids ids,
				 const char *name);
/* Of directories below the stage, which is the working directory. */
struct overlay {
	const char *lower; /* names with colons between them, top first */
	const char *upper, *work;
};
must_use struct err *mount_overlay(const struct features *fs, const struct overlay *o, int to);
/* host_usr.c: what an overlay at /usr is made of, with layer on top; as root. */
#define HOST_USR_LAYER "usr0"
must_use struct err *host_usr_stage(struct slot *s, const char *layer, bool again);
/* This machine's /usr at that of the root. writable: the overlay that was staged. */
must_use struct err *host_usr_mount(struct slot *s, bool writable, bool again);
/* From now on we create files as this id of the host, keeping our capabilities. */
must_use struct err *become(uint32_t id);
/* The root of a plan, complete, at s->root_fd. */
must_use struct err *root_complete(struct slot *s, const struct plan *plan);
/* From now on it is "/", and nothing of what was there is left. */
must_use struct err *root_pivot(int root);
/* oci.c: an OCI runtime makes the container, and we stay its supervisor. Returns only errors. */
must_use struct err *oci_become(struct slot *s, const struct plan *plan);

/* caps.c */
bool capabilities_have(int cap); /* in effect */
/* Makes every permitted capability effective: a change of ids to or from 0 alters the set. */
must_use struct err *capabilities_raise(void);
/* No others from here on, whatever is executed. */
must_use struct err *capabilities_keep(uint64_t keep);

/* mount.c */
unsigned mount_flags(unsigned flags); /* less those whose wall a test took down */
uint64_t mount_propagation(void);     /* of every mount that is cloned from one of the host */
must_use struct err *mount_tmpfs(const char *at, const char *options, unsigned flags);
/* A private copy of the mount at a directory or file. */
must_use struct err *mount_clone(struct slot *s, int from_fd, bool readonly, enum clone_ids ids,
				 int *ret_tree);
must_use struct err *mount_move(int tree, int to_fd);
/* Below root; created if absent; symbolic links stay inside. file: the target is a file. */
must_use struct err *root_open_target(const struct slot *s, int root, const char *path, bool file,
				      int *ret);
/* host_path.c: a directory or file of the host that a Pod may mount. As root. */
must_use struct err *host_path_open(const struct slot *s, const struct plan_mount *m, int *ret,
				    bool *ret_file);

/* A plan's volumes and single files. */
must_use struct err *root_mount_volumes(struct slot *s, int root, const struct plan *plan);

/* seccomp.c: the filter of every sandbox, compiled once. filter->filter is malloc'd. */
must_use struct err *seccomp_compile(struct sock_fprog *ret);
/* For a machine of another kind: arch is an AUDIT_ARCH_*. So the tests see the filters of all. */
must_use struct err *seccomp_compile_for(uint32_t arch, struct sock_fprog *ret);
must_use struct err *seccomp_install(const struct sock_fprog *filter);

/* netns.c: a network namespace with lo, eth0, its address and its way out. */
must_use struct err *netns_make(struct launcher *l, const struct message_net *spec, int *ret);
must_use struct err *netns_renew_proc(struct launcher *l); /* l->proc is there, and not too full */
/* The sandbox's address and its gateway's, of one family. */
struct netns_pair {
	struct ip addr, gw;
};
/* netns_filter.c: the second packet filter, inside the namespace that this thread is in. pairs: of
 * IPv4, and of IPv6 if there are two. */
must_use struct err *netns_filter(const struct netns_pair *pairs, unsigned n_pairs, bool egress);
/* netns_peers.c: the sandboxes and blocks of addresses that policies open, instead of those before.
 */
must_use struct err *netns_peers(struct launcher *l, int ns, const struct message_peers *spec);
/* netns_check.c: NULL if the network is as it was made, ERR_CONFLICT if it is not; another error if
 * that could not be found out. */
must_use struct err *netns_check(struct launcher *l, int ns);
