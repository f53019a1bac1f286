/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "guest/rpc/pb_priv.h"
#include "guest/rpc/rpc_describe_priv.h"
#include "guest/rpc/rpc_priv.h"

/*
 * Server reflection, by which tools find out what is served: grpc.reflection.v1 and its predecessor
 * v1alpha, which differ in their names alone.
 */
struct reflect_request {
	char *host;
	uint32_t which;
	char *text; /* of the member that is there */
};

enum {
	ASK_FILE = 3,
	ASK_SYMBOL,
	ASK_EXTENSION,
	ASK_EXTENSIONS,
	ASK_SERVICES,
	TELL_HOST = 1,
	TELL_REQUEST,
	TELL_FILES = 4,
	TELL_SERVICES = 6,
	TELL_ERROR,
};

#define ASK(what, field_number)                            \
	{ what,                                            \
	  field_number,                                    \
	  PB_STRING,                                       \
	  .at = offsetof(struct reflect_request, text),    \
	  .seen = offsetof(struct reflect_request, which), \
	  .oneof = "message_request" }

static const struct pb_field extension_fields[] = { { "containing_type", 1, PB_STRING },
						    { "extension_number", 2, PB_INT32 },
						    { 0 } };
static const struct pb_message extension_message = { "ExtensionRequest", 0, extension_fields };

static const struct pb_field request_fields[] = {
	{ "host", 1, PB_STRING, .at = offsetof(struct reflect_request, host), .seen = PB_UNSEEN },
	ASK("file_by_filename", ASK_FILE),
	ASK("file_containing_symbol", ASK_SYMBOL),
	{ "file_containing_extension", ASK_EXTENSION, PB_MESSAGE,
	  .seen = offsetof(struct reflect_request, which), .oneof = "message_request",
	  .of = &extension_message },
	ASK("all_extension_numbers_of_type", ASK_EXTENSIONS),
	ASK("list_services", ASK_SERVICES),
	{ 0 },
};
static const struct pb_message request_message = { "ServerReflectionRequest",
						   sizeof(struct reflect_request), request_fields };

static const struct pb_field files_fields[] = { { "file_descriptor_proto", 1, PB_BLOBS }, { 0 } };
static const struct pb_message files_message = { "FileDescriptorResponse", 0, files_fields };
static const struct pb_field service_fields[] = { { "name", 1, PB_STRING }, { 0 } };
static const struct pb_message service_message = { "ServiceResponse", 0, service_fields };
static const struct pb_field services_fields[] = {
	{ "service", 1, PB_MESSAGES, .of = &service_message },
	{ 0 },
};
static const struct pb_message services_message = { "ListServiceResponse", 0, services_fields };
static const struct pb_field error_fields[] = { { "error_code", 1, PB_INT32 },
						{ "error_message", 2, PB_STRING },
						{ 0 } };
static const struct pb_message error_message = { "ErrorResponse", 0, error_fields };

static const struct pb_field response_fields[] = {
	{ "valid_host", TELL_HOST, PB_STRING },
	{ "original_request", TELL_REQUEST, PB_MESSAGE, .of = &request_message },
	{ "file_descriptor_response", TELL_FILES, PB_MESSAGE, .oneof = "message_response",
	  .of = &files_message },
	{ "list_services_response", TELL_SERVICES, PB_MESSAGE, .oneof = "message_response",
	  .of = &services_message },
	{ "error_response", TELL_ERROR, PB_MESSAGE, .oneof = "message_response",
	  .of = &error_message },
	{ 0 },
};
static const struct pb_message response_message = { "ServerReflectionResponse", 0,
						    response_fields };

static void put(struct buf *out, uint32_t number, const struct buf *inner)
{
	pb_put_bytes(out, number, buf_head(inner), inner->len);
}

static void put_services(struct buf *out)
{
	autobuf all = { 0 };

	for (size_t i = 0; rpc_services[i]; i++) {
		autofree char *name =
			xasprintf("%s.%s", rpc_services[i]->package, rpc_services[i]->name);
		autobuf one = { 0 };

		pb_put_text(&one, 1, name);
		put(&all, 1, &one);
	}
	put(out, TELL_SERVICES, &all);
}

static void put_error(struct buf *out, enum rpc_code code, const char *text)
{
	autobuf error = { 0 };

	pb_put_int(&error, 1, code);
	pb_put_text(&error, 2, text);
	put(out, TELL_ERROR, &error);
}

static bool is_asked_for(const struct rpc_service *s, const struct reflect_request *q)
{
	return q->which == ASK_FILE ? str_eq(q->text, s->file) : rpc_describes(s, q->text);
}

static void put_file(struct buf *out, const struct reflect_request *q)
{
	autobuf files = { 0 }, file = { 0 };

	for (size_t i = 0; rpc_services[i] && !file.len; i++)
		if (is_asked_for(rpc_services[i], q))
			rpc_describe(rpc_services[i], &file);
	if (!file.len && str_eq(q->text, q->which == ASK_FILE ? RPC_EMPTY_FILE : RPC_EMPTY_NAME))
		rpc_describe_empty(&file);
	if (!file.len) {
		put_error(out, RPC_NOT_FOUND, "there is no such file or symbol");
		return;
	}
	put(&files, 1, &file);
	put(out, TELL_FILES, &files);
}

static void put_request(struct buf *out, const struct reflect_request *q)
{
	autobuf request = { 0 };

	pb_put_text(&request, 1, q->host ? q->host : "");
	if (q->which && q->which != ASK_EXTENSION)
		pb_put_bytes(&request, q->which, q->text, strlen(q->text));
	put(out, TELL_REQUEST, &request);
}

static void reflect(struct rpc *c, const void *request)
{
	const struct reflect_request *q = request;
	autobuf answer = { 0 };

	pb_put_text(&answer, TELL_HOST, q->host ? q->host : "");
	put_request(&answer, q);
	if (q->which == ASK_SERVICES)
		put_services(&answer);
	else if (q->which == ASK_FILE || q->which == ASK_SYMBOL)
		put_file(&answer, q);
	else if (q->which)
		put_error(&answer, RPC_NOT_FOUND, "there are no extensions");
	else
		put_error(&answer, RPC_INVALID_ARGUMENT, "message_request: nothing is asked");
	rpc_send(c, &answer);
}

static const struct rpc_method methods[] = {
	{ "ServerReflectionInfo", &request_message, &response_message, reflect,
	  .many_requests = true, .many_answers = true },
	{ 0 },
};
const struct rpc_service reflection_service = { "grpc.reflection.v1", "ServerReflection",
						"grpc/reflection/v1/reflection.proto", methods };
const struct rpc_service reflection_alpha_service = { "grpc.reflection.v1alpha", "ServerReflection",
						      "grpc/reflection/v1alpha/reflection.proto",
						      methods };
