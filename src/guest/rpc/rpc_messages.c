/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/rpc/rpc_priv.h"
#include "guest/rpc/rpc_process_priv.h"

/* The service process.v1.ProcessService and its messages. */

#define AT(type, member) .at = offsetof(struct type, member)
#define UNSEEN           .seen = PB_UNSEEN

static const struct pb_message empty = { .name = ".google.protobuf.Empty" };

static const struct pb_field config_fields[] = {
	{ "command", 1, PB_STRINGS, AT(process_config, command), UNSEEN },
	{ "env_vars", 2, PB_MAP, AT(process_config, env), UNSEEN },
	{ "cwd", 3, PB_STRING, AT(process_config, cwd), UNSEEN, .optional = true },
	{ 0 },
};
static const struct pb_message config_message = { "ProcessConfig", sizeof(struct process_config),
						  config_fields };

static const struct pb_field pty_fields[] = {
	{ "cols", 1, PB_UINT32, AT(process_pty, cols), UNSEEN },
	{ "rows", 2, PB_UINT32, AT(process_pty, rows), UNSEEN },
	{ 0 },
};
static const struct pb_message pty_message = { "PTY", sizeof(struct process_pty), pty_fields };

static const struct pb_field start_request_fields[] = {
	{ "config", 1, PB_MESSAGE, AT(start_request, config), UNSEEN, .of = &config_message },
	{ "pty", 2, PB_MESSAGE, AT(start_request, pty),
	  .seen = offsetof(struct start_request, has_pty), .optional = true, .of = &pty_message },
	{ 0 },
};
const struct pb_message start_request_message = { "StartRequest", sizeof(struct start_request),
						  start_request_fields };

static const struct pb_field init_fields[] = { { "process_id", 1, PB_INT32 }, { 0 } };
static const struct pb_message init_message = { "InitEvent", 0, init_fields };
static const struct pb_field exit_fields[] = { { "exit_code", 1, PB_INT32 }, { 0 } };
static const struct pb_message exit_message = { "ExitEvent", 0, exit_fields };

static const struct pb_field start_response_fields[] = {
	{ "init", START_INIT, PB_MESSAGE, .oneof = "event", .of = &init_message },
	{ "stdout", START_STDOUT, PB_BYTES, .oneof = "event" },
	{ "stderr", START_STDERR, PB_BYTES, .oneof = "event" },
	{ "exit", START_EXIT, PB_MESSAGE, .oneof = "event", .of = &exit_message },
	{ 0 },
};
const struct pb_message start_response_message = { "StartResponse", 0, start_response_fields };

static const struct pb_field execute_request_fields[] = {
	{ "config", 1, PB_MESSAGE, AT(execute_request, config), UNSEEN, .of = &config_message },
	{ 0 },
};
const struct pb_message execute_request_message = { "ExecuteRequest",
						    sizeof(struct execute_request),
						    execute_request_fields };

static const struct pb_field execute_response_fields[] = {
	{ "exit_code", EXECUTE_EXIT_CODE, PB_INT32 },
	{ "stdout", EXECUTE_STDOUT, PB_BYTES },
	{ "stderr", EXECUTE_STDERR, PB_BYTES },
	{ 0 },
};
const struct pb_message execute_response_message = { "ExecuteResponse", 0,
						     execute_response_fields };

static const struct pb_field stdin_fields[] = {
	{ "process_id", 1, PB_INT32, AT(stdin_request, id), UNSEEN },
	{ "input", STDIN_INPUT, PB_BYTES, AT(stdin_request, input),
	  .seen = offsetof(struct stdin_request, which), .oneof = "payload" },
	{ "eof", STDIN_EOF, PB_MESSAGE, .seen = offsetof(struct stdin_request, which),
	  .oneof = "payload", .of = &empty },
	{ 0 },
};
const struct pb_message stdin_request_message = { "WriteStdinRequest", sizeof(struct stdin_request),
						  stdin_fields };
const struct pb_message stdin_response_message = { .name = "WriteStdinResponse" };

static const struct pb_enum signals = { "Signal",
					{ { "SIGNAL_UNSPECIFIED", 0 },
					  { "SIGNAL_SIGINT", 2 },
					  { "SIGNAL_SIGKILL", 9 },
					  { "SIGNAL_SIGTERM", 15 } } };

static const struct pb_field signal_fields[] = {
	{ "process_id", 1, PB_INT32, AT(signal_request, id), UNSEEN },
	{ "signal", 2, PB_ENUM, AT(signal_request, signal), UNSEEN, .values = &signals },
	{ 0 },
};
const struct pb_message signal_request_message = { "SendSignalRequest",
						   sizeof(struct signal_request), signal_fields };
const struct pb_message signal_response_message = { .name = "SendSignalResponse" };

static const struct pb_field resize_fields[] = {
	{ "process_id", 1, PB_INT32, AT(resize_request, id), UNSEEN },
	{ "cols", 2, PB_UINT32, AT(resize_request, cols), UNSEEN },
	{ "rows", 3, PB_UINT32, AT(resize_request, rows), UNSEEN },
	{ 0 },
};
const struct pb_message resize_request_message = { "ResizeTTYRequest",
						   sizeof(struct resize_request), resize_fields };
const struct pb_message resize_response_message = { .name = "ResizeTTYResponse" };
