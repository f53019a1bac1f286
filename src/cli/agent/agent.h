/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"

/* The commands for agents and sessions, as rows of the table in main.c. */
extern const struct setting agent_settings[], approve_settings[], attach_settings[],
	cost_settings[], detach_settings[], hook_settings[], session_settings[], trigger_settings[];

int agent_cmd(const struct command *c, const struct settings *s);
int approve_cmd(const struct command *c, const struct settings *s);
int attach_cmd(const struct command *c, const struct settings *s);
int cost_cmd(const struct command *c, const struct settings *s);
int detach_cmd(const struct command *c, const struct settings *s);
int hook_cmd(const struct command *c, const struct settings *s);
int session_cmd(const struct command *c, const struct settings *s);
int trigger_cmd(const struct command *c, const struct settings *s);
