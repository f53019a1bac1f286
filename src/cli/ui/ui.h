/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The web page, from the command line: `cay ui`. */
struct command;
struct setting;
struct settings;

extern const struct setting ui_settings[];
int ui_run(const struct command *c, const struct settings *s);
