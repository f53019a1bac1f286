/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct command;
struct setting;
struct settings;

/* The commands that work on sandboxes, as rows of the table in main.c. */
extern const struct setting apply_settings[], get_settings[], claim_settings[], cp_settings[],
	delete_settings[], exec_settings[], explain_settings[], logs_settings[], ls_settings[],
	port_settings[], power_settings[], run_settings[], sh_settings[], top_settings[];

int apply_run(const struct command *c, const struct settings *s);
int claim_run(const struct command *c, const struct settings *s);
int cp_run(const struct command *c, const struct settings *s);
int delete_run(const struct command *c, const struct settings *s);
int exec_run(const struct command *c, const struct settings *s);
int explain_run(const struct command *c, const struct settings *s);
int get_run(const struct command *c, const struct settings *s);
int logs_run(const struct command *c, const struct settings *s);
int ls_run(const struct command *c, const struct settings *s);
int port_run(const struct command *c, const struct settings *s);
int resume_run(const struct command *c, const struct settings *s);
int run_run(const struct command *c, const struct settings *s);
int sh_run(const struct command *c, const struct settings *s);
int suspend_run(const struct command *c, const struct settings *s);
int top_run(const struct command *c, const struct settings *s);
