/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "client/http_priv.h"
#include "json/json.h"

/*
 * What an API server's refusal means to us. The reason in its Status decides; where there is none
 * (from a proxy or an old server) the HTTP status does.
 */
static const struct {
	const char *reason;
	int status;
	enum err_code code;
} meanings[] = {
	{ "BadRequest", 400, ERR_MALFORMED },
	{ "Unauthorized", 401, ERR_UNAUTHENTICATED },
	{ "Forbidden", 403, ERR_FORBIDDEN },
	{ "NotFound", 404, ERR_NOT_FOUND },
	{ "MethodNotAllowed", 405, ERR_METHOD },
	{ "NotAcceptable", 406, ERR_UNACCEPTABLE },
	{ "Conflict", 409, ERR_CONFLICT },
	{ "AlreadyExists", 409, ERR_EXISTS },
	{ "Gone", 410, ERR_GONE },
	{ "Expired", 410, ERR_GONE },
	{ "RequestEntityTooLarge", 413, ERR_TOO_LARGE },
	{ "UnsupportedMediaType", 415, ERR_MEDIA_TYPE },
	{ "Invalid", 422, ERR_INVALID },
	{ "TooManyRequests", 429, ERR_EXHAUSTED },
	{ "InternalError", 500, ERR_INTERNAL },
	{ "ServiceUnavailable", 503, ERR_UNAVAILABLE },
	{ "ServerTimeout", 504, ERR_TIMEOUT },
	{ "Timeout", 504, ERR_TIMEOUT },
};

static enum err_code code_of(const char *reason, int status)
{
	for (size_t i = 0; reason && i < ARRAY_LEN(meanings); i++) {
		if (str_eq(meanings[i].reason, reason))
			return meanings[i].code;
	}
	for (size_t i = 0; i < ARRAY_LEN(meanings); i++) {
		if (meanings[i].status == status)
			return meanings[i].code;
	}
	return status >= 500 ? ERR_UNAVAILABLE : ERR_INVALID;
}

struct err *status_err(const struct json *status, int http_status, const char *what)
{
	const char *reason = json_get_str(status, "reason");
	const char *message = json_get_str(status, "message");
	int code = (int)json_get_int(status, "code", http_status);

	if (str_empty(message))
		return err_new(code_of(reason, code), "%s: HTTP status %d", what, code);
	return err_new(code_of(reason, code), "%s: %.2000s", what, message);
}

struct err *status_err_text(const char *body, size_t len, int http_status, const char *what)
{
	autoptr(json_doc) doc = NULL;

	err_free(json_parse(body, len, NULL, &doc)); /* not JSON: the HTTP status decides */
	return status_err(json_root(doc), http_status, what);
}

struct json_doc *status_doc(const struct err *e, int *ret_status)
{
	struct json_doc *d = json_doc_new();
	struct json *o = json_obj(d);
	const char *reason = "InternalError";
	int status = 500;

	for (size_t i = ARRAY_LEN(meanings); i-- > 0;)
		if (err_is(e, meanings[i].code)) {
			reason = meanings[i].reason;
			status = meanings[i].status;
		}
	json_set_root(d, o);
	json_set_str(d, o, "kind", "Status");
	json_set_str(d, o, "apiVersion", "v1");
	(void)json_set(d, o, "metadata", json_obj(d));
	json_set_str(d, o, "status", "Failure");
	json_set_str(d, o, "message", err_text(e));
	json_set_str(d, o, "reason", reason);
	json_set_int(d, o, "code", status);
	*ret_status = status;
	return d;
}
