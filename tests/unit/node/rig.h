/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/object.h"
#include "client/client.h"
#include "fake_runtime.h"
#include "json/json.h"
#include "node/host/instance.h"
#include "node/pod/pod.h"
#include "proxy.h"
#include "test.h"

struct image_pull_wait;
struct loop;
struct server;

/*
 * A real server and its store in this process, and the Pods of a node on it, over a fake runtime.
 * The only image is "img". Needs no privilege.
 */
#define NS "default"
struct rig {
	struct loop *loop;
	struct server *server;
	struct client *client; /* the test's own */
	struct client *theirs; /* the node's, behind the proxy */
	struct proxy proxy;
	struct fake_runtime rt;
	struct pods *pods;
	struct instance inst; /* has the addresses of the fake runtime */
	struct holds *holds;
	unsigned max_holds; /* from the next start on; 0: many */
	bool no_image;      /* "img" is not there */
	bool local_image;   /* it did not come from a registry */
	unsigned n_finds;   /* how many times images were looked for */
	bool pulls;         /* from the next start on, images are pulled */
	unsigned n_pulls;
	char pull_auth[256];                          /* credentials of the last one */
	struct image_pull_wait *pull;                 /* under way */
	int64_t max_pods, max_memory, max_containers; /* from the next start on; 0: any number */
	bool real_tries; /* from the next start on, probes really try */
	bool stopped;
	char dir[64], data_dir[80], run_dir[80];
	struct diskpool *disk;
};

void rig_open(struct rig *r);
void rig_stop(struct rig *r); /* the node's daemon alone */
void rig_start(struct rig *r);
void rig_restart(struct rig *r); /* both; tasks run on meanwhile */
void rig_done(struct rig *r);

void turn(struct rig *r);              /* what is due now, runs */
void step(struct rig *r, uint64_t ms); /* lets time go by, then runs what is due */
/* Turns the loop until the condition holds: for what the store's thread or a job decides. */
#define until(r, cond)                                                         \
	do {                                                                   \
		for (int until_n_ = 0; !(cond) && until_n_ < 1000; until_n_++) \
			wait_a_bit(r);                                         \
		is_true(cond);                                                 \
	} while (0)
void wait_a_bit(struct rig *r);
/* Ends the pull that is under way; why NULL: the image is there now. */
void pull_end(struct rig *r, const char *why);

/* JSON with ' for ". */
struct json_doc *doc_of(const char *text);
/* A Pod: its spec but for the braces. */
void pod_create(struct rig *r, const char *name, const char *spec);
void pod_create_annotated(struct rig *r, const char *name, const char *annotations,
			  const char *spec);
void pod_create_ahead(struct rig *r, const char *name, const char *spec); /* for a warm pool */
void pod_delete(struct rig *r, const char *name, int64_t grace_s);
void create(struct rig *r, const struct kind *k, const char *text);
void pvc_delete(struct rig *r, const char *name); /* although a Pod uses it */
void patch_status(struct rig *r, const char *name, const char *text);
void pod_patch_part(struct rig *r, const char *name, const char *sub, const char *spec);
void patch_sandbox(struct rig *r, const char *name, const char *text);
void patch_config_map(struct rig *r, const char *name, const char *text);
struct object *pod_get(struct rig *r, const char *name); /* NULL: none */
bool pod_there(struct rig *r, const char *name);
uint64_t rev(struct rig *r); /* grows with each write to the store */

/* Text at a path of the Pod's status; "" when it is absent. Good until the fourth next call. */
const char *told(struct rig *r, const char *name, const char *path);
const char *ready_of(struct rig *r, const char *name); /* of the condition: "True", "False", "" */
size_t count_events(struct rig *r, const char *reason);
bool event_says(struct rig *r, const char *reason, const char *part); /* of its message */

/* Probes that try nothing: the test answers for the one of this port (1 to 7). */
unsigned tries_of(uint16_t port); /* how many were begun */
void answer(uint16_t port, bool good);
