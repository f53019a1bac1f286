/* SPDX-License-Identifier: Apache-2.0 */
/* The man page, derived from the tables of commands and settings so that it cannot become stale. */
#include "base/buf.h"
#include "cli/cli.h"

void man_write(const struct command *table, struct buf *out)
{
	buf_printf(
		out,
		".TH CAY 1 \"\" \"cay %s\" \"User Commands\"\n.SH NAME\ncay \\- sandboxes for agents on one machine, behind the "
		"Kubernetes API\n.SH SYNOPSIS\n.B cay\n.I COMMAND\n[flags]\n.SH COMMANDS\n",
		CAY_VERSION);
	for (const struct command *c = table; c->name; c++) {
		if (c->hidden)
			continue;
		buf_printf(out, ".SS cay %s %s\n%s.\n", c->name, c->usage, c->summary);
		if (c->text)
			buf_printf(out, ".PP\n%s\n", c->text);
		settings_man(c->settings, out);
	}
	buf_add_str(
		out,
		".SH FILES\n.TP\n.I /var/lib/cay\nState: objects (store.db), keys, images, volumes, sandboxes.\n.TP\n"
		".I /run/cay\nSockets of running sandboxes.\n"
		".SH EXIT STATUS\n0 on success, 1 on failure, 2 for a wrong flag or argument.\n"
		".BR run , exec \" and \" sh\nend as the command that they ran.\n");
}
