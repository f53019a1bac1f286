/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "json/json.h"

struct loop;
struct map;

/*
 * Images of a data directory:
 *
 *   images/names.json            {"names": {canonical name: id},
 *                                 "pulled": {canonical name: id}, as its registry had it,
 *                                 "images": {id: {digest, digests, source, size, layers, config}},
 *                                 "layers": {layer: size}}
 *   images/layers/<diff-id>      a layer, unpacked once for all images that have it
 *   images/<id>/rootfs           a layer from before there were diff-ids
 *   images/.import-<random>      work in progress
 *   images/host-<tag>/           the skeleton of `host`, rebuilt when the machine's files change
 *   images/host-writable-<tag>/  the same for `host:writable`: root, and usr, a layer over /usr
 *   images/pause/                an empty root
 *
 * names.json is replaced whole, so readers need no lock; writers take images/lock.
 */
struct image {
	char *id, *digest, *source;
	int64_t size;
	char **layers; /* absolute, top first, NULL-terminated */
	bool host_usr; /* the machine's /usr comes on top */
	bool pulled;   /* the registry of its name had it; otherwise it is a local one */
	char *usr;     /* a layer over that /usr, which can then be written to; NULL: none */
	/* {"env": [..], "entrypoint": [..], "cmd": [..], "workdir": "", "user": "", "uid": n,
	 * "gid": n, "home": "", "stopsignal": n, "labels": {}, "ports": ["80/tcp"],
	 * "created": "", "os": "", "architecture": ""}, each optional. "user" without "uid": nobody
	 * in the image is called so. */
	struct json_doc *config;
};
void image_free(struct image *i);
AUTOPTR(image)
int image_stop_signal(const struct image *i); /* what asks its command to end; NULL is fine */
/* The ids of its user. ERR_INVALID: it has no such user, or one beyond a sandbox's ids. */
must_use struct err *image_user(const struct image *i, uint32_t *ret_uid, uint32_t *ret_gid);
/* A text of its config, or NULL. */
const char *image_text(const struct image *i, const char *member);

struct images;
must_use struct err *images_open(const char *data_dir, struct images **ret);
void images_free(struct images *im);
AUTOPTR(images)
must_use struct err *images_reload(struct images *im); /* names.json was replaced */
/* ERR_NOT_FOUND: no local image has this name; the text says how to get one. ERR_UNAVAILABLE: it is
 * being made. */
must_use struct err *images_find(const struct images *im, const char *name, struct image **ret);
/*
 * What is made of this machine when it is first asked for is made by a job from now on; without
 * this, images_find() makes it itself. changed(): look for it again.
 */
struct image_users;
struct images_maker {
	struct loop *loop;
	const struct image_users *users;
	void (*changed)(void *arg);
	void *arg;
};
void images_make_on(struct images *im, const struct images_maker *maker);

/* "busybox:1.36" → "docker.io/library/busybox:1.36"; NULL: not a name. *ret_digest may be set. */
char *image_canonical(const char *name, char **ret_digest);
char *images_dir(const char *data_dir);

/* The commands of `cay image`: they work whether or not a node runs on the data directory. */
struct image_info {
	char *name, *digest, *source;
	long long size;
};
must_use struct err *image_tag(const char *data_dir, const char *from, const char *to);
/* Called now and then during a long step, on the caller's thread. */
struct image_progress {
	void (*report)(void *arg, const char *what, unsigned long long bytes);
	void *arg;
};
/*
 * A docker-archive, an oci-archive, an OCI layout or a root file system; the content says which.
 * name NULL: as the archive calls them. progress may be NULL. *ret, if wanted: [{name, digest}].
 * ERR_UNSUPPORTED: something else, which the text names. ERR_INVALID, ERR_MALFORMED, ERR_EXHAUSTED:
 * what is wrong with it.
 */
must_use struct err *image_import(const char *data_dir, const char *path, const char *name,
				  const struct image_progress *progress, struct json_doc **ret);
/*
 * From a registry, by skopeo, which must be installed. The name may have a digest. Registries on
 * this machine's loopback may speak plain HTTP. ERR_UNAVAILABLE: skopeo's own words.
 */
struct image_pull {
	const char *data_dir, *name;
	const char *authfile; /* credentials, as containers-auth.json(5) has them; NULL: skopeo's */
	const char *registries_conf;           /* mirrors; NULL: the machine's own */
	const struct image_progress *progress; /* or NULL */
};
must_use struct err *image_pull(const struct image_pull *pull, struct json_doc **ret);
/*
 * From Debian packages and files, without running anything of them. The same recipe and the same
 * packages always become the same image. ERR_INVALID: the recipe, by its member. ERR_NOT_FOUND:
 * a package, by its name. ERR_CANCELED: a signal.
 */
struct image_build {
	const char *data_dir;
	const char *source;        /* the recipe's file, for messages and lists */
	const struct json *recipe; /* docs/guide/images.md has its members */
	const char *name;          /* NULL: the recipe's */
	const char *files_dir;     /* where the files are that the recipe adds */
	const char *debs;          /* packages; NULL: those of the machine's apt sources */
	const struct image_progress *progress; /* or NULL */
};
must_use struct err *image_build(const struct image_build *build, struct json_doc **ret);
/* An oci-archive. The same image always becomes the same bytes. */
must_use struct err *image_export(const char *data_dir, const char *name, const char *path,
				  const struct image_progress *progress);
/* *ret: {"name", "names", "id", "digest", "digests", "size", "source", "layers", "config"} */
must_use struct err *image_inspect(const char *data_dir, const char *name, struct json_doc **ret);

/* Which images sandboxes use: id → a Pod that does, with values of its own; IMAGE_ANY stands for
 * all of them. The image room does not know Pods. */
#define IMAGE_ANY "*"
struct image_users {
	struct err *(*find)(const char *data_dir, struct map **ret);
};
/* Removes the name, and with an image's last name the image. ERR_CONFLICT: a sandbox uses it. */
must_use struct err *image_remove(const char *data_dir, const char *name,
				  const struct image_users *users);
/* Removes images without a name, and layers that no image has. *ret: {"images", "layers", "bytes"}
 */
must_use struct err *image_prune(const char *data_dir, const struct image_users *users,
				 struct json_doc **ret);
must_use struct err *image_list(const char *data_dir, struct image_info **ret, size_t *ret_n);
void image_list_free(struct image_info *list, size_t n);

/*
 * Pulls by the node, in child processes that run `cay image pull`. On the loop's thread.
 */
struct image_pulls;
struct image_pulls_spec {
	struct loop *loop;
	const char *data_dir;
	const char *run_dir;       /* in memory: credentials are there while a pull needs them */
	void (*pulled)(void *arg); /* there is another image; before anybody's done() */
	void *arg;
};
/* Embedded in who waits. on must be initialised, and all else be zero but done. */
struct image_pull_wait {
	struct list on;
	struct pull *pull; /* what it waits for; NULL: nothing */
	void (*done)(struct image_pull_wait *w, const struct err *e); /* NULL: it is there */
};
struct image_pulls *image_pulls_new(const struct image_pulls_spec *spec);
/* Ends those under way, and turns the loop until they have. NULL is fine. */
void image_pulls_free(struct image_pulls *p);
/* auth: the text of an auth file, or NULL. done() may be called before this returns. */
void image_pulls_ask(struct image_pulls *p, const char *name, const char *auth,
		     struct image_pull_wait *w);
/* Ends a wait, and with the last one the pull. Does nothing for one that waits for nothing. */
void image_pull_leave(struct image_pull_wait *w);
