/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"

/* The words of a command that has several: `cay user add NAME`. */
struct cli_verb {
	const char *name;
	size_t least, most;       /* words after it */
	const char *usage, *help; /* usage: after the verb; "" if there is nothing to say */
	struct err *(*run)(const struct settings *s);
	int (*judge)(const struct settings *s); /* instead of run: the exit code says more */
};

struct cli_verbs {
	const struct cli_verb *all; /* ends with a NULL name */
	const struct setting *settings;
	const char *usual; /* the verb when none is given; NULL: there is none */
};

/* Runs the verb that the first word names. */
int cli_verbs_run(const struct command *c, const struct settings *s, const struct cli_verbs *v);
/* For struct command.help: what the help of that command's verb says. */
bool cli_verbs_help(const char *command, const struct settings *s, const struct cli_verbs *v,
		    struct buf *out);
