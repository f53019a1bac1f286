/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/settings.h"

struct command;

/*
 * The roles that serve. cli/ finds the command and reads its settings; these run until they are
 * told to stop, and return the exit status.
 */
extern const struct setting serve_settings[];
int serve_run(const struct command *c, const struct settings *settings);

extern const struct setting controller_settings[];
int controller_run(const struct command *c, const struct settings *settings);

extern const struct setting router_settings[];
int router_run(const struct command *c, const struct settings *settings);

/* What the commands of cli/ need from node/ and store/, which cli/ itself must not know. */
void tools_provide(void);
/* The same from server/. */
void data_provide(void);
