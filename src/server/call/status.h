/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/schema.h"
#include "base/err.h"

struct call;
struct json_doc;
struct kind;
struct object;

/*
 * Errors as Kubernetes reports them: HTTP status, reason, message, details. The only place that
 * knows status numbers.
 */
enum {
	STATUS_SWITCHING = 101,
	STATUS_OK = 200,
	STATUS_CREATED = 201,
	STATUS_MOVED = 301,
	STATUS_NOT_MODIFIED = 304,
};
int status_of(enum err_code code);
bool status_retries(enum err_code code); /* the client is told to try again in a second */
/* What the details of an error name. */
enum details {
	DETAILS_RESOURCE, /* the object and its resource, or its kind if it is invalid */
	DETAILS_PLURAL,   /* the object and its resource in any case */
	DETAILS_KIND,     /* the object and its kind in any case */
	DETAILS_NONE,     /* nothing: the request is at fault, whatever it was for */
};
struct status_about {
	const struct kind *kind; /* NULL: no details */
	const char *name;
	enum details details;
	const struct causes *causes;
};
struct json_doc *status_failure(const struct err *e, const struct status_about *about);
/* k: as it was asked for. */
struct json_doc *status_success(const struct kind *k, const struct object *gone);

/* In the words that clients know and compare. */
must_use struct err *err_absent(const struct kind *k, const char *name)
	__attribute__((returns_nonnull));
must_use struct err *err_present(const struct kind *k, const char *name);
must_use struct err *err_changed(const struct kind *k, const char *name, const char *why);
must_use struct err *err_forbidden(const struct kind *k, const char *name, const char *why);
must_use struct err *err_invalid(const struct kind *k, const char *name, const struct causes *c);
must_use struct err *err_no_resource(void); /* the path names nothing that is served */
must_use struct err *err_no_method(void);
