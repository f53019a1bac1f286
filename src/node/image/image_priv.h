/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <locale.h>
#include <stdatomic.h>

#include "base/str.h"
#include "crypto/crypto.h"
#include "node/image/image.h"

struct archive_entry;
struct import;

/* names.c: names.json, its lock and the names of images. */
enum {
	LAYERS_MAX = 256, /* of an image; an overlay takes 500 */
};
must_use struct err *names_read(const char *data_dir, struct json_doc **ret);
must_use struct err *names_write(const char *data_dir, const struct json_doc *d);
/* One writer at a time; closing the descriptor releases the lock. Removes what a command that was
 * killed left behind. */
must_use struct err *names_lock(const char *data_dir, int *ret);
/* The id behind a name, also of a built-in image; NULL: none. names NULL: only the built-in ones.
 */
const char *names_id(const struct json_doc *names, const char *canonical);
struct json *names_image(const struct json_doc *names, const char *id); /* its record, or NULL */
/* The id of the image that has this digest and a name in the same repository; NULL: none. */
const char *names_by_digest(const struct json_doc *names, const char *canonical,
			    const char *digest);
/* The same for a name as a person writes it, with or without a digest. */
const char *names_id_of(const struct json_doc *names, const char *name);
bool names_has_digest(const struct json *image, const char *digest);
/* Whether the name stands for what its registry had, rather than for something local. */
bool names_pulled(const struct json_doc *names, const char *key, const char *id);
/* Lets key stand for id. pulled: that is what its registry has. */
void names_give(struct json_doc *names, const char *key, const char *id, bool pulled);
void names_forget(struct json_doc *names, const char *key);
bool digest_valid(const char *digest); /* "sha256:" and 64 hexadecimal digits */
/* The member of names.json for a name: "repository:tag", or "repository@digest". */
char *name_key(const char *name);
/* The canonical form of a name that an image may be given. ERR_INVALID. */
must_use struct err *name_to_give(const char *name, char **ret);
must_use struct err *bad_name(const char *name);
must_use struct err *no_image(const char *name);

/* host.c: create the roots of the built-in images where they are missing. *ret_dir is the root. */
must_use struct err *image_make_host(const char *data_dir, char **ret_dir);
must_use struct err *image_make_pause(const char *data_dir, char **ret_dir);
/* The skeleton of `host`, but for its own programs in /usr/local, and what it is made of. */
struct host_copy {
	const char *from; /* of the machine; what is not there, or not for everybody, is left out */
	int dir;
	const char *name;
	bool (*wanted)(int fd); /* NULL: all files */
};
must_use struct err *host_skeleton(int root);
void host_skeleton_hash(struct sha256 *h);
void host_hash_file(struct sha256 *h, const char *path); /* changes when the file does */
/* The same for all files below it; depth is 0. */
void host_hash_tree(struct sha256 *h, const char *path, unsigned depth);
must_use struct err *host_copy(const struct host_copy *c);
must_use struct err *host_write(int dir, const char *name, mode_t mode, struct span text);

/* host_writable.c: `host:writable`, with its id. */
#define HOST_WRITABLE "host-writable"
/* *ret: the directory for the image of the machine as it is now, made where it is missing, which
 * takes seconds. Earlier ones are removed if no sandbox uses any; users may be NULL: none is
 * removed. */
must_use struct err *host_writable_make(const char *data_dir, const struct image_users *users,
					char **ret);
/* host_usr.c: every directory of the machine's /usr that everybody may list, below dir; what tells
 * them from others. */
must_use struct err *host_usr_dirs(int dir);
must_use struct err *host_usr_hash(struct sha256 *hash);

/* maker.c: host_writable_make() once it is asked for, as a job if there is a loop. */
struct maker;
struct maker *maker_new(const char *data_dir);
void maker_free(struct maker *m); /* waits for the job */
void maker_start(struct maker *m, const struct images_maker *spec);
/* *ret stays the maker's. ERR_UNAVAILABLE: it is being made. */
must_use struct err *maker_ask(struct maker *m, const char **ret);

/* How a root file system is read in: its limits, and where progress is reported. */
struct layer_job {
	uint64_t max_bytes, max_entries; /* 0: the defaults */
	bool public_only;                /* copy.c: leave out what not everybody may read */
	bool (*wanted)(int fd);          /* copy.c: leave out files that it denies; or NULL */
	bool whiteouts;                  /* a layer, whose ".wh." names hide what is below it */
	bool keep_links;                 /* a directory does not replace a link to a directory */
	_Atomic uint64_t *done;          /* bytes written so far, for who looks on; or NULL */
};
struct layer_done {
	uint64_t bytes, entries;
	char digest[DIGEST_TEXT_LEN];  /* of the file as it is */
	char diff_id[DIGEST_TEXT_LEN]; /* of the tar in it */
};

/*
 * tar.c: a tar that may be compressed, entry by entry, from a descriptor, or from memory if bytes
 * is not NULL. It hashes both forms, and ends with ERR_EXHAUSTED when the tar is longer than max.
 */
struct tar;
struct tar_from {
	int fd;
	const void *bytes;
	size_t len;
	uint64_t max;
};
must_use struct err *tar_open(const struct tar_from *from, struct tar **ret);
void tar_free(struct tar *t);
AUTOPTR(tar)
/* *ret is NULL at the end; it is good until the next call. */
must_use struct err *tar_next(struct tar *t, struct archive_entry **ret);
/* A piece of the entry's data, NULL at its end. */
must_use struct err *tar_data(struct tar *t, const void **ret, size_t *ret_len, int64_t *ret_off);
/* Reads what follows the tar's end: it belongs to the digests. */
must_use struct err *tar_end(struct tar *t, struct layer_done *ret);
/* The thread's locale, in which names are UTF-8. */
struct tar_locale {
	locale_t utf8, before;
};
void tar_locale_enter(struct tar_locale *l);
void tar_locale_leave(struct tar_locale *l);
/* The first bytes of a file without its compression; at most len. */
must_use struct err *tar_head(const struct tar_from *from, char *ret, size_t len, size_t *ret_len);

/* layer.c: reads foreign bytes. Unpacks a tar below root, which is an empty directory, and never
 * writes outside it. */
must_use struct err *layer_unpack(const struct tar_from *from, int root,
				  const struct layer_job *job, struct layer_done *ret);
/* copy.c: copies a directory tree. The digests stay empty. */
must_use struct err *layer_copy_dir(int from, int root, const struct layer_job *job,
				    struct layer_done *ret);
/* layer.c: a directory below root, made with its parents where it is missing. */
must_use struct err *layer_need_dir(int root, const char *path, int *ret);
/* layer.c: the owner that a file of an image gets: ids beyond a slot's range become nobody's. */
uint32_t layer_owner(int64_t id);
/* layer.c: the job with its defaults filled in; NULL is fine. */
struct layer_job layer_job_of(const struct layer_job *job);
must_use struct err *layer_too_many_bytes(const struct layer_job *job);
must_use struct err *layer_too_many_entries(const struct layer_job *job);

/* A whiteout on disk, as an overlay wants it: a character device 0:0, or this on a directory. */
#define LAYER_OPAQUE "trusted.overlay.opaque"

/* pack.c: a directory as a tar, always the same bytes for the same tree. sink takes each piece. */
struct pack_sink {
	struct err *(*write)(void *arg, const void *p, size_t len);
	void *arg;
};
must_use struct err *layer_pack(int root, const struct pack_sink *sink);
must_use struct err *layer_diff_id(int root, char ret[DIGEST_TEXT_LEN]);

/* kind.c: what something from outside is, by its content. */
enum tree_kind {
	TREE_ROOT,   /* a root file system */
	TREE_OCI,    /* an OCI image layout */
	TREE_DOCKER, /* what `docker save` writes */
	TREE_KIND_MAX_,
};
/* ERR_UNSUPPORTED names what the file is if it is not a tar. */
must_use struct err *kind_check_file(const struct tar_from *from);
/* ERR_UNSUPPORTED, ERR_INVALID: neither an image nor a root file system. */
must_use struct err *kind_of_tree(int dir, enum tree_kind *ret);

/* import.c: an OCI layout that was pulled. */
must_use struct err *import_pulled(const struct image_pull *pull, const char *path,
				   const char *source, struct json_doc **ret);

/* import.c: a root file system that was built here. dir is taken over by renaming it. */
struct import_root {
	const char *data_dir, *name, *source, *dir;
	const char *config; /* of the image, as JSON */
	char created[32];
	uint64_t size;
	const struct image_progress *progress; /* or NULL */
};
must_use struct err *import_built(const struct import_root *from, struct json_doc **ret);

/* An image as it was found, before its layers are in the store. */
struct draft_layer {
	char *path;            /* of the tar below the tree; NULL: it is in the store */
	char *digest;          /* that the file must have; NULL: not known */
	char *diff_id;         /* that the tar in it must have */
	char *dir;             /* "layers/<hex>" */
	uint64_t size;         /* once it is unpacked; 0: see names.json */
	_Atomic uint64_t done; /* bytes unpacked */
	struct err *failed;    /* why it was not */
	struct import *owner;  /* import.c */
};
struct draft {
	char **names;   /* as the archive has them, NULL-terminated */
	char **digests; /* of the config, the manifest and the index; the first is the image's */
	struct json_doc *config;    /* as struct image has it */
	struct draft_layer *layers; /* bottom first */
	size_t n_layers;
	struct draft *next;
};
void draft_free(struct draft *d); /* draft.c; and all that follow */
AUTOPTR(draft)
void draft_add_name(struct draft *d, const char *name);
void draft_add_digest(struct draft *d, const char *digest);

/* oci.c, docker.c: the images of a tree, in order; tar files are only named. */
must_use struct err *oci_read(int tree, struct draft **ret);
must_use struct err *docker_read(int tree, struct draft **ret);
/* draft.c: a file of a tree, opened without following anything that leads out of it. */
must_use struct err *tree_open(int tree, const char *path, int *ret);
must_use struct err *tree_read(int tree, const char *path, char **ret, size_t *ret_len);

/* config.c: from an image's config, which is foreign, to what we keep. Sets the layers' diff_ids:
 * there must be as many as d has layers. ERR_INVALID names the member. */
must_use struct err *config_read(const char *text, size_t len, struct draft *d);
/* Whether something that is for this platform runs here. ERR_UNSUPPORTED. NULLs are fine. */
must_use struct err *platform_check(const char *os, const char *arch);
/* users.c: looks the config's user up in the files of the layers (top first), and adds uid, gid
 * and home where it is found. */
void users_resolve(const char *const *layers, struct json_doc *config);

/* work.c: directories for work in progress, removed by the next command if their owner died. */
must_use struct err *work_new(const char *data_dir, char **ret_path, int *ret_fd);
void work_sweep(const char *data_dir); /* with the lock held */
/* The bytes of the files in a directory, without those further down; 0 if there is none. */
uint64_t work_bytes(int at, const char *path);

/* collect.c, with the lock held: removes images without a name (only: this one) and the layers that
 * no image has, but nothing that a sandbox uses. Writes names, in which the caller has changed
 * something. */
struct collect_done {
	size_t images, layers;
	int64_t bytes;
};
must_use struct err *images_collect(const char *data_dir, struct json_doc *names,
				    const struct image_users *users, const char *only,
				    struct collect_done *ret);
