/* SPDX-License-Identifier: Apache-2.0 */
#include "net/grpc.h"

#include "base/buf.h"
#include "base/str.h"
#include "net/http_server.h"
#include "router/router_priv.h"

/*
 * gRPC, as far as a router knows it: which requests are calls, how long one may take, and how its
 * failure is told. A call is answered with HTTP status 200 whatever happens; its own status is in
 * the trailers.
 */
#define TYPE "application/grpc"
static const char *const status_fields[] = { "grpc-status", "grpc-message",
					     "grpc-status-details-bin", NULL };

bool grpc_is_call(struct http_request *req)
{
	const char *type = http_request_header(req, "Content-Type");
	char end;

	if (http_request_version(req) != 2 || !str_eq(http_request_method(req), "POST") || !type ||
	    strncasecmp(type, TYPE, strlen(TYPE)) != 0)
		return false;
	end = type[strlen(TYPE)];
	return end == '\0' || end == '+' || end == ';';
}

const char *grpc_timeout(const struct http_headers *h, usec *ret)
{
	const char *text = NULL;

	for (size_t i = 0; i < h->n; i++) {
		if (!str_eq_nocase(h->list[i].name, "grpc-timeout"))
			continue;
		if (text)
			return "grpc-timeout is given more than once.";
		text = h->list[i].value;
	}
	if (text && !grpc_timeout_read(text, ret))
		return "grpc-timeout must be one to eight digits and one of the units H, M, S, m, "
		       "u and n.";
	return NULL;
}

void grpc_set_timeout(struct http_headers *h, uint64_t left_ms)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%llum",
		       (unsigned long long)MIN(left_ms, (uint64_t)99999999));
	http_headers_set(h, "grpc-timeout", text);
}

static int code_of_status(int status)
{
	switch (status) {
	case 400:
		return 3; /* INVALID_ARGUMENT */
	case 401:
		return 16; /* UNAUTHENTICATED */
	case 403:
		return 7; /* PERMISSION_DENIED */
	case 502:
	case 503:
		return 14; /* UNAVAILABLE */
	case 504:
		return 4; /* DEADLINE_EXCEEDED */
	default:
		return 13; /* INTERNAL */
	}
}

void grpc_end(struct http_request *req, int status, const char *text)
{
	struct http_headers trailers = { 0 };
	autobuf message = { 0 };
	char code[12];

	(void)snprintf(code, sizeof(code), "%d", code_of_status(status));
	grpc_message_put(&message, text);
	http_headers_add(&trailers, "grpc-status", code);
	http_headers_add(&trailers, "grpc-message", buf_str(&message));
	http_respond_trailers(req, &trailers);
	http_respond_end(req);
	http_headers_done(&trailers);
}

void grpc_answer(struct http_request *req, int status, const char *text)
{
	struct http_headers h = { 0 };

	http_headers_add(&h, "Content-Type", TYPE);
	http_respond_start(req, 200, &h, -1);
	grpc_end(req, status, text);
	http_headers_done(&h);
}

void grpc_take_status(struct http_headers *head, struct http_headers *ret)
{
	for (size_t i = 0; status_fields[i]; i++) {
		const char *value = http_headers_get(head, status_fields[i]);

		if (value)
			http_headers_add(ret, status_fields[i], value);
		http_headers_del(head, status_fields[i]);
	}
}
