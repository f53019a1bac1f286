/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The man pages, derived from the tables of commands and settings so that they cannot become stale:
 * one of the whole, one for each group of commands, and one of the settings in a file.
 */
#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"

enum {
	COMMANDS_MAX = 20,
};

static const struct page {
	const char *name, *section, *title, *what;
	const char *commands[COMMANDS_MAX]; /* none: all, in the page of the whole */
	bool keys;                          /* the settings of the first as keys of a file */
} pages[] = {
	{ "cay",
	  "1",
	  "User Commands",
	  "sandboxes for agents on one machine, behind the Kubernetes API",
	  { NULL } },
	{ "cay-sandbox",
	  "1",
	  "User Commands",
	  "make, use and look at sandboxes",
	  { "run",  "exec", "sh",  "claim",   "delete",     "ls",     "logs",
	    "port", "cp",   "get", "apply",   "suspend",    "resume", "explain",
	    "top",  "ui",   "url", "version", "completion", "man" } },
	{ "cay-agent",
	  "1",
	  "User Commands",
	  "agents, their sessions, and what they ask",
	  { "agent", "session", "attach", "detach", "approve", "cost", "trigger", "hook" } },
	{ "cay-image", "1", "User Commands", "the images that sandboxes run", { "image" } },
	{ "cay-token", "1", "User Commands", "keys and tokens of agents", { "token" } },
	{ "cay-mcp", "1", "User Commands", "sandboxes as tools of language models", { "mcp" } },
	{ "cay-bench", "1", "User Commands", "measure claims, starts and commands", { "bench" } },
	{ "cay-serve",
	  "8",
	  "System Administration",
	  "the whole system on this machine",
	  { "serve" } },
	{ "cay-controller",
	  "8",
	  "System Administration",
	  "the controllers alone, against a Kubernetes cluster",
	  { "controller" } },
	{ "cay-router",
	  "8",
	  "System Administration",
	  "the router alone, against a Kubernetes cluster",
	  { "router" } },
	{ "cay-admin",
	  "8",
	  "System Administration",
	  "look after a server: users, backups, damage, what is on the host",
	  { "user", "stop", "backup", "restore", "fsck", "audit", "census", "doctor",
	    "manifests" } },
	{ "cay.yaml",
	  "5",
	  "File Formats",
	  "the settings of cay serve in a file",
	  { "serve" },
	  true },
};

/* A line of text must not be taken for a request, nor a backslash for an escape. */
static void put_text(struct buf *out, const char *text)
{
	bool begins = true;

	for (; *text; text++) {
		if (begins && (*text == '.' || *text == '\''))
			buf_add_str(out, "\\&");
		if (*text == '\\')
			buf_add_str(out, "\\e");
		else
			buf_add_char(out, *text);
		begins = *text == '\n';
	}
}

static void put_title(struct buf *out, const struct page *p)
{
	buf_add_str(out, ".TH ");
	for (const char *c = p->name; *c; c++)
		buf_add_char(out, *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
	buf_printf(out, " %s \"\" \"cay %s\" \"%s\"\n.SH NAME\n%s \\- %s\n", p->section,
		   CAY_VERSION, p->title, p->name, p->what);
}

static void put_command(struct buf *out, const struct command *c)
{
	buf_printf(out, ".SS cay %s %s\n%s.\n", c->name, c->usage, c->summary);
	if (c->text) {
		buf_add_str(out, ".PP\n");
		put_text(out, c->text);
		buf_add_char(out, '\n');
	}
	settings_man(c->settings, out);
}

static const struct command *find_command(const struct command *table, const char *name)
{
	while (table->name && !str_eq(table->name, name))
		table++;
	return table->name ? table : NULL;
}

static void put_commands(struct buf *out, const struct page *p, const struct command *table)
{
	buf_add_str(out, ".SH SYNOPSIS\n.B cay\n.I COMMAND\n[flags]\n.SH COMMANDS\n");
	for (const struct command *c = table; !*p->commands && c->name; c++)
		if (!c->hidden)
			put_command(out, c);
	for (size_t i = 0; i < COMMANDS_MAX && p->commands[i]; i++) {
		const struct command *c = find_command(table, p->commands[i]);

		if (c)
			put_command(out, c);
	}
}

static void put_keys(struct buf *out, const struct setting *rows)
{
	buf_add_str(
		out,
		".SH DESCRIPTION\nA YAML mapping of settings, which\n.B cay serve --config\n.I FILE\nreads;"
		" the service reads\n.IR /etc/cay/cay.yaml .\nA flag takes precedence over a variable, that"
		" over the file, and the file over the default. A list sets a setting that may be repeated."
		" An unknown key is an error that names its line.\n.SH KEYS\n");
	for (; rows->name; rows++) {
		if (str_eq(rows->name, "config"))
			continue;
		buf_printf(out, ".TP\n.BR %s \": \" \\fI%s\\fR\n", rows->name,
			   rows->value ? rows->value : "true|false");
		put_text(out, rows->help);
		buf_add_char(out, '.');
		if (rows->fallback) {
			buf_add_str(out, " Default: ");
			put_text(out, *rows->fallback ? rows->fallback : "\"\"");
			buf_add_char(out, '.');
		}
		buf_add_char(out, '\n');
	}
}

static void put_rest(struct buf *out, const struct page *p)
{
	const char *comma = "";

	buf_add_str(
		out,
		".SH FILES\n.TP\n.I /etc/cay/cay.yaml\nSettings of the service.\n.TP\n"
		".I /var/lib/cay\nState: objects (store.db), keys, images, volumes, sandboxes.\n.TP\n"
		".I /run/cay\nSockets of running sandboxes.\n");
	if (!p->keys)
		buf_add_str(
			out,
			".SH EXIT STATUS\n0 on success, 1 on failure, 2 for a wrong flag or argument.\n"
			".BR run , exec \" and \" sh\nend as the command that they ran.\n");
	buf_add_str(out, ".SH SEE ALSO\n");
	for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
		if (&pages[i] == p)
			continue;
		buf_printf(out, "%s.BR %s (%s)", comma, pages[i].name, pages[i].section);
		comma = " ,\n";
	}
	buf_add_char(out, '\n');
}

static const struct page *find_page(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(pages); i++)
		if (str_eq(pages[i].name, name))
			return &pages[i];
	return NULL;
}

struct err *man_write(const struct command *table, const char *name, struct buf *out)
{
	const struct page *p = find_page(name);
	const struct command *first;
	autobuf names = { 0 };

	if (!p) {
		man_list(&names);
		for (size_t i = 0; i < names.len; i++)
			if (buf_head(&names)[i] == '\n')
				buf_head(&names)[i] = ' ';
		return err_new(ERR_INVALID, "there is no page %s; there are %s", name,
			       buf_str(&names));
	}
	first = *p->commands ? find_command(table, *p->commands) : NULL;
	put_title(out, p);
	if (p->keys && first)
		put_keys(out, first->settings);
	else
		put_commands(out, p, table);
	put_rest(out, p);
	return NULL;
}

void man_list(struct buf *out)
{
	for (size_t i = 0; i < ARRAY_LEN(pages); i++)
		buf_printf(out, "%s.%s\n", pages[i].name, pages[i].section);
}
