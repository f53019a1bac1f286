/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/clock.h"
#include "base/list.h"
#include "page/page.h"

struct http_headers;
struct json;
struct map;

enum {
	LINKS_MAX = 1000,
	LINKS_USER_MAX = 50,
	BODY_LIMIT = 4096,
	FAILURES_MAX = 30, /* in a minute, of one address */
	HOSTS_MAX = 4096,  /* addresses whose failures are counted */
};

/* links.c: codes that are open. now is the monotonic time. */
struct link {
	struct list on; /* links.list, the oldest first */
	char *user;
	char **groups;
	int64_t expires; /* as page_visitor's */
	char *key;       /* SHA-256 of the code, as hex */
	usec until;
};
struct links {
	struct list list;
	struct map *by_key; /* borrowed */
};
void links_init(struct links *l);
void links_done(struct links *l);
must_use struct err *links_add(struct links *l, const struct page_visitor *who, usec now,
			       char ret[PAGE_CODE_LEN + 1]);
/* The link is the caller's, and over. NULL: there is none. */
struct link *links_take(struct links *l, const char *code, usec now);
void link_free(struct link *k);
AUTOPTR(link)

/* attempts.c: how often somebody was wrong. */
struct attempts {
	struct map *hosts; /* address without port → count in this minute, as a pointer */
	usec since;
};
void attempts_init(struct attempts *a);
void attempts_done(struct attempts *a);
/* Somebody was wrong. False: too often from that address, and *ret_after says for how many seconds
 * that counts. */
bool attempts_failed(struct attempts *a, const char *peer, usec now, int *ret_after);

struct page {
	struct page_spec spec;
	struct links links;
	struct attempts attempts;
	char **plain; /* unpacked files, made when first asked for; NULL: not yet */
};

/* files.c */
struct file_answer {
	int status;
	const struct page_file *file; /* of 200 and 304 */
	bool immutable;
};
struct file_answer files_find(const struct page_files *files, const char *method, const char *path);
bool accepts_gzip(const char *header); /* NULL: no */
bool etag_known(const char *if_none_match, const char *etag);
