/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "crypto/crypto.h"
#include "json/json.h"

/*
 * Images of a data directory:
 *
 *   images/names.json      {"names": {canonical name: id}, "images": {id: {digest, source, size,
 *                          layers, config, host}}}
 *   images/<id>/rootfs     an imported one; id is the start of its digest
 *   images/host-<tag>/     the skeleton of `host`, made anew when the machine's own files changed
 *   images/pause/          an empty root
 *
 * names.json is replaced whole, so readers need no lock; writers take images/lock.
 */
struct image {
	char *id, *digest, *source;
	int64_t size;
	char **layers; /* absolute, top first, NULL-terminated */
	bool host_usr; /* the machine's /usr comes on top */
	/* {"env": [..], "entrypoint": [..], "cmd": [..], "workdir": "", "user": ""}, each optional
	 */
	struct json_doc *config;
};
void image_free(struct image *i);
AUTOPTR(image)

struct images;
must_use struct err *images_open(const char *data_dir, struct images **ret);
void images_free(struct images *im);
AUTOPTR(images)
must_use struct err *images_reload(struct images *im); /* names.json was replaced */
/* ERR_NOT_FOUND: no local image has this name; the text says how to get one. */
must_use struct err *images_find(const struct images *im, const char *name, struct image **ret);

/* "busybox:1.36" → "docker.io/library/busybox:1.36"; NULL: not a name. *ret_digest may be set. */
char *image_canonical(const char *name, char **ret_digest);
char *images_dir(const char *data_dir);

/* image_host.c: makes the built-in roots where they are missing. *ret_dir is the host skeleton. */
must_use struct err *image_make_host(const char *data_dir, char **ret_dir);
must_use struct err *image_make_pause(const char *data_dir, char **ret_dir);

/* image_layer.c: reads foreign bytes. Unpacks a tar (plain, gz, xz, zst, bz2) below root, which is
 * an empty directory, and never writes outside it. */
struct layer_limits {
	uint64_t max_bytes, max_entries; /* 0: the defaults */
};
struct layer_done {
	uint64_t bytes, entries;
	char digest[DIGEST_TEXT_LEN]; /* of the file as it is */
};
must_use struct err *layer_unpack(int fd, int root, const struct layer_limits *limits,
				  void (*progress)(void *arg, const char *what,
						   unsigned long long done),
				  void *arg, struct layer_done *ret);
/* The same from memory, for tests. */
must_use struct err *layer_unpack_bytes(const void *p, size_t len, int root,
					const struct layer_limits *limits, struct layer_done *ret);
/* Copies a directory tree; the digest is of names, modes and contents in order. */
must_use struct err *layer_copy_dir(int from, int root, const struct layer_limits *limits,
				    void (*progress)(void *arg, const char *what,
						     unsigned long long done),
				    void *arg, struct layer_done *ret);
