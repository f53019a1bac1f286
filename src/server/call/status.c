/* SPDX-License-Identifier: Apache-2.0 */
#include "server/call/status.h"

#include <stdio.h>

#include "api/kind.h"
#include "api/object.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"
#include "json/json.h"
#include "server/call/call.h"

static const struct {
	int status;
	const char *reason;
} statuses[ERR_CODE_MAX_] = {
	[ERR_MALFORMED] = { 400, "BadRequest" },
	[ERR_UNAUTHENTICATED] = { 401, "Unauthorized" },
	[ERR_FORBIDDEN] = { 403, "Forbidden" },
	[ERR_NOT_FOUND] = { 404, "NotFound" },
	[ERR_METHOD] = { 405, "MethodNotAllowed" },
	[ERR_UNACCEPTABLE] = { 406, "NotAcceptable" },
	[ERR_EXISTS] = { 409, "AlreadyExists" },
	[ERR_CONFLICT] = { 409, "Conflict" },
	[ERR_GONE] = { 410, "Expired" },
	[ERR_TOO_LARGE] = { 413, "RequestEntityTooLarge" },
	[ERR_MEDIA_TYPE] = { 415, "UnsupportedMediaType" },
	[ERR_INVALID] = { 422, "Invalid" },
	[ERR_EXHAUSTED] = { 429, "TooManyRequests" },
	[ERR_UNSUPPORTED] = { 400, "BadRequest" },
	[ERR_UNAVAILABLE] = { 503, "ServiceUnavailable" },
	[ERR_TIMEOUT] = { 504, "Timeout" },
	[ERR_UNCERTAIN] = { 504, "Timeout" }, /* without an invitation to try again */
	[ERR_CANCELED] = { 503, "ServiceUnavailable" },
	[ERR_CORRUPT] = { 500, "InternalError" },
	[ERR_SYS] = { 500, "InternalError" },
	[ERR_INTERNAL] = { 500, "InternalError" },
};

int status_of(enum err_code code)
{
	return statuses[code].status;
}

bool status_retries(enum err_code code)
{
	return code == ERR_EXHAUSTED || code == ERR_UNAVAILABLE || code == ERR_TIMEOUT;
}

static struct json *status_new(struct json_doc *d, const char *status)
{
	struct json *o = json_obj(d);

	json_set_root(d, o);
	json_set_str(d, o, "kind", "Status");
	json_set_str(d, o, "apiVersion", "v1");
	(void)json_set(d, o, "metadata", json_obj(d));
	json_set_str(d, o, "status", status);
	return o;
}

static void add_causes(struct json_doc *d, struct json *details, const struct causes *c)
{
	struct json *list, *o;

	if (!c || !c->n)
		return;
	list = json_set(d, details, "causes", json_arr(d));
	for (size_t i = 0; i < c->n; i++) {
		o = json_obj(d);
		json_set_str(d, o, "reason", cause_reason_name(c->list[i].reason));
		json_set_str(d, o, "message", c->list[i].message);
		if (*c->list[i].field)
			json_set_str(d, o, "field", c->list[i].field);
		json_push(d, list, o);
	}
}

static struct json *details_of(struct json_doc *d, enum err_code code,
			       const struct status_about *about)
{
	struct json *details = json_obj(d);
	bool by_kind = about->details == DETAILS_KIND ||
		       (code == ERR_INVALID && about->details != DETAILS_PLURAL);
	const struct kind *k = code == ERR_INVALID ? kind_storage(about->kind) : about->kind;

	if (about->details == DETAILS_NONE ||
	    (code == ERR_CONFLICT && about->causes && about->causes->n)) {
		add_causes(d, details, about->causes); /* of an apply: it names nothing else */
		return details;
	}
	if (!str_empty(about->name))
		json_set_str(d, details, "name", about->name);
	if (*k->group)
		json_set_str(d, details, "group", k->group);
	json_set_str(d, details, "kind", by_kind || !k->plural ? k->kind : k->plural);
	add_causes(d, details, about->causes);
	return details;
}

struct json_doc *status_failure(const struct err *e, const struct status_about *about)
{
	struct json_doc *d = json_doc_new();
	struct json *o = status_new(d, "Failure"), *details = NULL;
	enum err_code code = err_code(e);
	const unsigned plain =
		B(ERR_MALFORMED) | B(ERR_UNAUTHENTICATED) | B(ERR_TOO_LARGE) | B(ERR_MEDIA_TYPE) |
		B(ERR_UNACCEPTABLE); /* these tell of the request, not of an object */

	json_set_str(d, o, "message", err_text(e));
	json_set_str(d, o, "reason", statuses[code].reason);
	if (about && (!(B(code) & plain) || about->details == DETAILS_NONE))
		details = about->kind ? details_of(d, code, about) : json_obj(d);
	if (status_retries(code)) {
		if (!details)
			details = json_obj(d);
		json_set_int(d, details, "retryAfterSeconds", 1);
	}
	if (details)
		(void)json_set(d, o, "details", details);
	json_set_int(d, o, "code", statuses[code].status);
	return d;
}

struct json_doc *status_success(const struct kind *k, const struct object *gone)
{
	struct json_doc *d = json_doc_new();
	struct json *o = status_new(d, "Success"), *details = json_obj(d);

	json_set_str(d, details, "name", gone->name);
	if (*k->group)
		json_set_str(d, details, "group", k->group);
	json_set_str(d, details, "kind", k->plural);
	json_set_str(d, details, "uid", gone->uid);
	(void)json_set(d, o, "details", details);
	return d;
}

struct text {
	char s[256];
};

static struct text qualified(const struct kind *k, const char *name)
{
	struct text t;

	(void)snprintf(t.s, sizeof(t.s), "%s%s%s", name, *k->group ? "." : "", k->group);
	return t;
}

struct err *err_absent(const struct kind *k, const char *name)
{
	return err_new(ERR_NOT_FOUND, "%s \"%s\" not found", qualified(k, k->plural).s, name);
}

struct err *err_present(const struct kind *k, const char *name)
{
	return err_new(ERR_EXISTS, "%s \"%s\" already exists", qualified(k, k->plural).s, name);
}

struct err *err_changed(const struct kind *k, const char *name, const char *why)
{
	return err_new(ERR_CONFLICT, "Operation cannot be fulfilled on %s \"%s\": %s",
		       qualified(k, k->plural).s, name,
		       why ? why
			   : "the object has been modified; please apply your changes to the "
			     "latest version and try again");
}

struct err *err_forbidden(const struct kind *k, const char *name, const char *why)
{
	if (str_empty(name))
		return err_new(ERR_FORBIDDEN, "%s is forbidden: %s", qualified(k, k->plural).s,
			       why);
	return err_new(ERR_FORBIDDEN, "%s \"%s\" is forbidden: %s", qualified(k, k->plural).s, name,
		       why);
}

struct err *err_invalid(const struct kind *k, const char *name, const struct causes *c)
{
	autofree char *text = causes_text(c);

	k = kind_storage(k); /* it is invalid in whatever version it was sent */
	return err_new(ERR_INVALID, "%s \"%s\" is invalid: %s", qualified(k, k->kind).s,
		       name ? name : "", text);
}

struct err *err_no_resource(void)
{
	return err_new(ERR_NOT_FOUND, "the server could not find the requested resource");
}

struct err *err_no_method(void)
{
	return err_new(ERR_METHOD,
		       "the server does not allow this method on the requested resource");
}
