/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct http_headers;
struct http_request;

/*
 * The web page: its files below /ui, and how somebody gets into it.
 *
 * Whoever has a credential asks for a link. Its code is in the fragment of the URL, which a browser
 * sends to nobody; the page exchanges it, once and within a minute, for the token of a session, and
 * sends that token as others send theirs. There are no cookies: a browser would send them to every
 * port of this host, also to those behind which pages of sandboxes are.
 */
struct page;

/* Made by tools/build-page. */
struct page_file {
	const char *path; /* below /ui/ */
	const char *type;
	const char *etag; /* in quotes */
	const unsigned char *gzip;
	size_t gzip_len;
	size_t len; /* as it is unpacked */
};
struct page_files {
	const struct page_file *list;
	size_t n; /* 0: the program was built without the page */
};
extern const struct page_files page_embedded;

#define PAGE_PATH     "/ui/"
#define PAGE_ROOT     "/ui"
#define PAGE_SELF     "/cay/v1/page"
#define PAGE_LINKS    "/cay/v1/page/links"
#define PAGE_SESSIONS "/cay/v1/page/sessions"
#define PAGE_URLS     "/cay/v1/page/urls"

/* Who asks. */
struct page_visitor {
	const char *user;
	const char *const *groups; /* NULL-terminated, with those that bind a credential */
	int64_t expires;           /* when their credential does, seconds since 1970; 0: unknown */
	const char *no_link;       /* why they get no link; NULL: they get one */
	const char *from;          /* the address of their peer */
	const char *account_ns;    /* of a service account, its namespace; otherwise NULL */
};

struct page_port {
	const char *ns, *sandbox;
	uint16_t port;
};

struct page_record {
	const char *user, *from, *what; /* what: "links" or "sessions" */
	int status;
};

struct page_spec {
	const struct page_files *files;
	const char *version;
	bool urls;    /* somebody else makes URLs; also with url() */
	bool audit;   /* there is a log that the page can show */
	bool proxied; /* `cay ui` stands between the page and the server */
	/* Whether a group is shown to its user. NULL: every one is. */
	bool (*shows)(void *arg, const char *group);
	/* The token of a session for who asked for its link, malloc'd. It is valid until *expires
	 * at most (seconds since 1970), which may be made earlier. */
	struct err *(*token)(void *arg, const struct page_visitor *who, int64_t *expires,
			     char **ret);
	/* A URL for that port, malloc'd, and until when it is valid. ERR_FORBIDDEN, ERR_NOT_FOUND.
	 * NULL: nobody makes them. */
	struct err *(*url)(void *arg, const struct page_visitor *who, const struct page_port *to,
			   char **ret, int64_t *ret_expires);
	void (*record)(void *arg, const struct page_record *r); /* NULL: nobody */
	/* Answers a request that cannot be served, with these headers among others. Takes e over.
	 */
	void (*refuse)(struct http_request *req, struct err *e, const struct http_headers *h);
	void *arg;
};
struct page *page_new(const struct page_spec *spec);
void page_free(struct page *p);
AUTOPTR(page)

/* All of these become the owner of the request and answer it. */
void page_visit_files(struct page *p, struct http_request *req);    /* PAGE_PATH and PAGE_ROOT */
void page_visit_sessions(struct page *p, struct http_request *req); /* PAGE_SESSIONS */
/* PAGE_SELF, PAGE_LINKS and PAGE_URLS; who is borrowed until the call returns. */
void page_visit(struct page *p, struct http_request *req, const struct page_visitor *who);

/* A link's code, for whoever makes one without a request. ERR_EXHAUSTED: there are too many. */
enum {
	PAGE_CODE_LEN = 43, /* 256 bits in base64url */
	PAGE_LINK_S = 60,
	PAGE_SESSION_S = 8 * 3600,
};
must_use struct err *page_link(struct page *p, const struct page_visitor *who,
			       char ret[PAGE_CODE_LEN + 1]);
