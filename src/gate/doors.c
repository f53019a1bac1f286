/* SPDX-License-Identifier: Apache-2.0 */
#include "api/agents.h"
#include "api/cay/capability.h"
#include "base/macros.h"
#include "base/str.h"
#include "gate/gate_priv.h"

/*
 * The doors, and what each takes. A port of the runtime APIs is as good as a shell: whoever can
 * connect to it may run, read and write whatever the sandbox can.
 */
#define RIGHT(r) (1U << RIGHT_##r)

const struct door doors[GATE_DOOR_MAX_] = {
	[GATE_EXEC] = { "exec", RIGHT(EXEC) },
	[GATE_ATTACH] = { "attach", RIGHT(EXEC) | RIGHT(WRITE), .shared_only = true },
	[GATE_LOGS] = { "logs", RIGHT(READ) },
	[GATE_PORT] = { "port", RIGHT(PORTS) },
	[GATE_RUNTIME] = { "runtime", RIGHT(EXEC) | RIGHT(READ) | RIGHT(WRITE) | RIGHT(PORTS),
			   .shared_only = true },
	[GATE_READ] = { "read", RIGHT(READ) },
	[GATE_WRITE] = { "write", RIGHT(WRITE) },
	[GATE_TOOL] = { "tool", 0 },
	[GATE_IDENTITY] = { "identity", RIGHT(EXEC) },
};

/* Tools that move files. Any other that enters a sandbox runs commands there. */
static const struct {
	const char *tool;
	enum gate_door door;
} files[] = {
	{ "download_file", GATE_READ },
	{ "list_files", GATE_READ },
	{ "file_exists", GATE_READ },
	{ "upload_file", GATE_WRITE },
};

const char *gate_door_name(enum gate_door d)
{
	return doors[d].name;
}

enum gate_door gate_door_of_port(uint16_t port)
{
	bool runtime =
		port == RUNTIME_PORT || port == SANDBOXD_REST_PORT || port == SANDBOXD_GRPC_PORT;

	return runtime ? GATE_RUNTIME : GATE_PORT;
}

enum gate_door door_of(const struct access_ask *ask)
{
	for (size_t i = 0; ask->deed.tool && i < ARRAY_LEN(files); i++)
		if (str_eq(ask->deed.tool, files[i].tool))
			return files[i].door;
	if (str_eq(ask->way, "tool"))
		return GATE_TOOL;
	if (str_eq(ask->way, "exec"))
		return GATE_EXEC;
	if (str_eq(ask->way, "attach"))
		return GATE_ATTACH;
	if (str_eq(ask->way, "logs"))
		return GATE_LOGS;
	return gate_door_of_port(ask->port);
}

bool tool_begins(const char *tool)
{
	return !str_eq(tool, "delete_sandbox") && !str_eq(tool, "get_sandbox_status");
}
