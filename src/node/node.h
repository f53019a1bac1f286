/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "client/token.h"
#include "json/json.h"
#include "node/host/budget.h"
#include "node/network/reach.h"

struct access;
struct buf;
struct client;
struct http_request;
struct ip;
struct loop;
struct map;

/*
 * The node: runs the Pods bound to it on this host, as a kubelet would, and gives ways into them.
 *
 * Everything that it creates on the host is named after the instance id kept in data_dir, so that
 * several instances can run side by side and node_census() can account for each.
 */
struct node;

struct node_spec {
	const char *data_dir; /* pods/, volumes/, images/ below it */
	const char *run_dir;  /* sockets; "/run/cay/<id>" when NULL */
	const char *node_name;
	const char *launcher;         /* cay-launch */
	const char *init;             /* cay-init */
	const char *without_features; /* kernel features that are not used, "pty,…"; NULL: none */
	const char *runtimes; /* OCI runtimes, as in --runtimes; NULL: those known by name */
	unsigned netns_pool;  /* prepared network namespaces; 0: 16 */
	/* Whose Pods these are; 0: unknown. What another store's Pods left is never removed. */
	uint64_t store_id;
	bool store_is_new;
	bool open_to_local_users; /* the packet filter lets all of the host's users reach sandboxes
				   */
	bool no_egress;           /* sandboxes do not reach the Internet either */
	const char *policy_may_open; /* private networks, as "10.20.0.0/16,…"; NULL: none */
	const char *domain;          /* of the names of objects; NULL: cluster.local */
	bool outlet;                 /* somebody serves it: its name leads to the gateway */
	const char *resolv_conf;     /* names the host's name servers; NULL: /etc/resolv.conf */
	const char *disk_pool;       /* NULL: an image file; "none"; or a directory on a btrfs */
	/* In bytes; disk_pool_size 0: by what is free. */
	int64_t disk_pool_size, sandbox_disk, log_max;
	bool allow_unenforced_disk;
	const char *host_paths; /* that Pods may mount: "/srv/data:ro,/srv/out:rw"; NULL: none */
	struct token_issuer tokens;  /* for the volumes of Pods; without issue(): there are none */
	bool pull_images;            /* those that are not there */
	int64_t usage_interval_s;    /* how often what sandboxes use is measured; 0: never */
	int64_t pressure_interval_s; /* how often it is looked whether that lasts; 0: 10 */
	/* The time that Pods are given to end with the node, and its part for critical ones alone.
	 */
	uint64_t shutdown_ms, shutdown_critical_ms;
	struct budget_spec budget;
	int give_up_fd; /* readable: a start that waits for somebody gives up, with ERR_CANCELED */
	/* Somebody stopped the scope that the control groups are in, and all sandboxes with it:
	 * only a new start has groups again. */
	void (*groups_lost)(void *arg);
	void *groups_lost_arg;
	const struct reach_judge *reach; /* whose way out is limited, and to what; NULL: nobody's */
};
/* Finds what still runs from before and continues with it. */
must_use struct err *node_start(struct loop *l, struct client *c, const struct node_spec *spec,
				struct node **ret);
struct access *node_access(struct node *n); /* borrowed */
/* Packets to Pods need this mark (SO_MARK), or the packet filter refuses them. */
uint32_t node_mark(const struct node *n);
void node_reach_changed(struct node *n); /* node_spec.reach may decide otherwise now */
void node_forget_judge(struct node *n);  /* it ends; what is limited stays as it is */
void node_gateway(const struct node *n, char ret[16]); /* its address in the sandboxes' network */
/*
 * For whoever sends requests on behalf of sandboxes. Which Sandbox uses an address, "100.64.0.9":
 * false if none does, also if a Pod without one does. All are borrowed, until the loop turns.
 */
struct node_sandbox {
	const char *ns, *name, *uid; /* as its Pod says: the Sandbox should say so too */
	const char *pod;
	unsigned place; /* in the address pool */
};
bool node_sandbox_at(const struct node *n, const char *ip, struct node_sandbox *ret);
/* The addresses of a name, asked for in the name of the sandbox at this place: done() is called
 * from the loop, once, unless it is cancelled before. */
struct lookup;
struct lookup *node_lookup(struct node *n, unsigned place, const char *name,
			   void (*done)(void *arg, const struct ip *addrs, size_t n_addrs),
			   void *arg);
void node_lookup_cancel(struct lookup *l);
/* Whether what is at this place may have a TCP connection to that address: a public one, or a
 * private one that policies have opened, and never one of this host or of a sandbox. */
bool node_may_reach(const struct node *n, unsigned place, const struct ip *to, uint16_t port);
void node_metrics(const struct node *n, struct buf *b); /* lines of /metrics */
/* Whether launches should leave a processor to others; they use all of them at first. Pods that
 * somebody waits for are not held back. */
void node_set_pace(struct node *n, bool yield);
/*
 * Requests from inside the Pods of Sandboxes, over their identity sockets (node/inside/inside.h).
 * visit() becomes the owner of the request and answers it; who is borrowed.
 */
struct node_caller {
	const char *ns, *pod, *pod_uid;
	const char *attachment; /* the uid of the one whose command asks; NULL: it is nobody's */
};
void node_set_inside(struct node *n,
		     void (*visit)(void *arg, struct http_request *req,
				   const struct node_caller *who),
		     void *arg); /* NULL: nobody answers */
/*
 * Before node_free(): takes no new Pods and waits until nothing is left of the deleted ones; with
 * `sandboxes`, of any. Then done(), in any case some seconds after the time that Pods have to end:
 * the next start removes the rest.
 */
void node_stop(struct node *n, bool sandboxes, void (*done)(void *arg), void *arg);
/* Leaves sandboxes running. What only they need is removed from the host if there are none, also by
 * a start that fails. */
void node_free(struct node *n);
AUTOPTR(node)

struct node_doctor_spec {
	const char *data_dir;
	const char *runtimes, *without_features; /* as in struct node_spec */
	const char *launcher, *init;             /* NULL: they are not there */
	bool quick;                              /* no sandbox is started */
};
/*
 * What this host has of what the node needs:
 * {"checks":[{"name":"seccomp","status":"ok"|"warn"|"fail","message":...,"fix":...}]}. A fix is
 * given unless all is well. What is tried is removed again, except for what node/doctor/README.md
 * names.
 */
must_use struct err *node_doctor(const struct node_doctor_spec *spec, struct json_doc **ret,
				 size_t *ret_failed);
/* The runtimes that the node can be asked for, whether or not they are installed: a malloc'd list
 * that ends with NULL, of malloc'd names. runtimes: as in struct node_spec. ERR_INVALID. */
must_use struct err *node_runtime_names(const char *runtimes, char ***ret);

/*
 * What exists on the host for this data directory:
 * {"items":[{"type":"mount","name":...,"owner":"default/web-1" or null}]}. An item without an owner
 * that is alive is an orphan. Works whether or not an instance is running. objects is a list of the
 * Pod, PersistentVolumeClaim and PersistentVolume objects that exist, whole; role/tools.c reads
 * them from the store file.
 */
must_use struct err *node_census(const char *data_dir, const struct json *objects,
				 struct json_doc **ret, size_t *ret_orphans);
/* Which images sandboxes use: id → "namespace/pod". Works whether or not an instance is running. */
must_use struct err *node_images_used(const char *data_dir, struct map **ret);
