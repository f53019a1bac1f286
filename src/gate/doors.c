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
	if (str_eq(ask->way, "exec"))
		return GATE_EXEC;
	if (str_eq(ask->way, "attach"))
		return GATE_ATTACH;
	if (str_eq(ask->way, "logs"))
		return GATE_LOGS;
	return gate_door_of_port(ask->port);
}
