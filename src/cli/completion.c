/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completion for shells, derived from the tables of commands and settings as the man page is. Names
 * of claims and sandboxes come from `cay ls -o name`, which is asked when they are completed.
 */
#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"

/* Commands whose words are names. */
static bool takes_names(const struct command *c)
{
	return str_starts(c->usage, "NAME");
}

static void put_words(const struct command *table, struct buf *out)
{
	for (const struct command *c = table; c->name; c++)
		if (!c->hidden)
			buf_printf(out, "%s%s", c == table ? "" : " ", c->name);
}

static void put_flags(const struct command *c, struct buf *out)
{
	for (const struct setting *s = c->settings; s->name; s++)
		buf_printf(out, "%s--%s", s == c->settings ? "" : " ", s->name);
}

static void put_choices(const struct setting *s, struct buf *out)
{
	for (const char *const *c = s->choices; *c; c++)
		buf_printf(out, "%s%s", c == s->choices ? "" : " ", *c);
}

/* What follows --x of a command: a choice, a file, or nothing that we could know. */
static void bash_values(const struct command *c, struct buf *out)
{
	for (const struct setting *s = c->settings; s->name; s++) {
		if (s->type == SETTING_BOOL)
			continue;
		buf_printf(out, "\t%s:--%s", c->name, s->name);
		if (s->letter)
			buf_printf(out, "|%s:-%c", c->name, s->letter);
		buf_add_str(out, ") ");
		if (s->choices) {
			buf_add_str(out, "COMPREPLY=($(compgen -W '");
			put_choices(s, out);
			buf_add_str(out, "' -- \"$cur\")); return");
		} else if (str_eq(s->value, "FILE") || str_eq(s->value, "DIR")) {
			buf_add_str(out, "COMPREPLY=($(compgen -f -- \"$cur\")); return");
		} else {
			buf_add_str(out, "return");
		}
		buf_add_str(out, " ;;\n");
	}
}

static void write_bash(const struct command *table, struct buf *out)
{
	buf_add_str(out, "# bash completion for cay: eval \"$(cay completion bash)\"\n"
			 "_cay_names() { cay ls -o name 2>/dev/null; }\n"
			 "_cay() {\n"
			 "local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
			 "cmd=${COMP_WORDS[1]} flags=\n"
			 "COMPREPLY=()\n"
			 "if [ \"$COMP_CWORD\" -eq 1 ]; then\n\tCOMPREPLY=($(compgen -W '");
	put_words(table, out);
	buf_add_str(out, " help' -- \"$cur\")); return\nfi\ncase $cmd:$prev in\n");
	for (const struct command *c = table; c->name; c++)
		if (!c->hidden)
			bash_values(c, out);
	buf_add_str(out, "esac\ncase $cmd in\n");
	for (const struct command *c = table; c->name; c++) {
		if (c->hidden)
			continue;
		buf_printf(out, "\t%s) flags='", c->name);
		put_flags(c, out);
		buf_add_str(out, "' ;;\n");
	}
	buf_add_str(out,
		    "esac\ncase $cur in\n"
		    "\t-*) COMPREPLY=($(compgen -W \"$flags --help\" -- \"$cur\")); return ;;\n"
		    "esac\ncase $cmd in\n");
	for (const struct command *c = table; c->name; c++)
		if (!c->hidden && takes_names(c) && !str_eq(c->name, "cp"))
			buf_printf(
				out,
				"\t%s) COMPREPLY=($(compgen -W \"$(_cay_names)\" -- \"$cur\")) ;;\n",
				c->name);
	buf_add_str(out, "\tcp) COMPREPLY=($(compgen -S : -W \"$(_cay_names)\" -- \"$cur\") "
			 "$(compgen -f -- \"$cur\")); compopt -o nospace ;;\n"
			 "esac\n}\ncomplete -o default -F _cay cay\n");
}

/* A help text between single quotes, without what zsh and fish would read in it. */
static void put_help(const char *text, struct buf *out)
{
	for (; *text; text++)
		if (!strchr("'[]:\\`$\"", *text))
			buf_add_char(out, *text);
}

static void zsh_command(const struct command *c, struct buf *out)
{
	buf_printf(out, "\t%s) _arguments -s", c->name);
	for (const struct setting *s = c->settings; s->name; s++) {
		buf_printf(out, " \\\n\t\t'%s--%s%s[", s->type == SETTING_LIST ? "*" : "", s->name,
			   s->type == SETTING_BOOL ? "" : "=");
		put_help(s->help, out);
		buf_add_char(out, ']');
		if (s->choices) {
			buf_printf(out, ":%s:(", s->name);
			put_choices(s, out);
			buf_add_char(out, ')');
		} else if (s->type != SETTING_BOOL) {
			buf_printf(out, ":%s:%s", s->name,
				   str_eq(s->value, "FILE") || str_eq(s->value, "DIR") ? "_files"
										       : " ");
		}
		buf_add_char(out, '\'');
	}
	if (takes_names(c))
		buf_add_str(out, " \\\n\t\t'*:name:_cay_names'");
	else
		buf_add_str(out, " \\\n\t\t'*:file:_files'");
	buf_add_str(out, " ;;\n");
}

static void write_zsh(const struct command *table, struct buf *out)
{
	buf_add_str(out, "#compdef cay\n# zsh completion for cay: source <(cay completion zsh)\n"
			 "_cay_names() { compadd -- ${(f)\"$(cay ls -o name 2>/dev/null)\"} }\n"
			 "_cay() {\nlocal -a commands\ncommands=(\n");
	for (const struct command *c = table; c->name; c++) {
		if (c->hidden)
			continue;
		buf_printf(out, "\t'%s:", c->name);
		put_help(c->summary, out);
		buf_add_str(out, "'\n");
	}
	buf_add_str(out, ")\nif (( CURRENT == 2 )); then _describe command commands; return; fi\n"
			 "shift words; (( CURRENT-- ))\ncase $words[1] in\n");
	for (const struct command *c = table; c->name; c++)
		if (!c->hidden)
			zsh_command(c, out);
	buf_add_str(out, "esac\n}\ncompdef _cay cay\n");
}

static void fish_flag(const struct command *c, const struct setting *s, struct buf *out)
{
	buf_printf(out, "complete -c cay -n '__fish_seen_subcommand_from %s' -l %s", c->name,
		   s->name);
	if (s->letter)
		buf_printf(out, " -s %c", s->letter);
	if (s->choices) {
		buf_add_str(out, " -xa '");
		put_choices(s, out);
		buf_add_char(out, '\'');
	} else if (s->type != SETTING_BOOL) {
		buf_add_str(out, " -r");
	}
	buf_add_str(out, " -d '");
	put_help(s->help, out);
	buf_add_str(out, "'\n");
}

static void write_fish(const struct command *table, struct buf *out)
{
	buf_add_str(out, "# fish completion for cay: cay completion fish | source\n");
	for (const struct command *c = table; c->name; c++) {
		if (c->hidden)
			continue;
		buf_printf(out, "complete -c cay -n __fish_use_subcommand -xa %s -d '", c->name);
		put_help(c->summary, out);
		buf_add_str(out, "'\n");
		if (takes_names(c))
			buf_printf(
				out,
				"complete -c cay -n '__fish_seen_subcommand_from %s' -a '(cay ls "
				"-o name 2>/dev/null)'\n",
				c->name);
		for (const struct setting *s = c->settings; s->name; s++)
			fish_flag(c, s, out);
	}
}

struct err *completion_write(const struct command *table, const char *shell, struct buf *out)
{
	static const struct {
		const char *shell;
		void (*write)(const struct command *table, struct buf *out);
	} shells[] = { { "bash", write_bash }, { "zsh", write_zsh }, { "fish", write_fish } };

	for (size_t i = 0; i < ARRAY_LEN(shells); i++) {
		if (!str_eq(shells[i].shell, shell))
			continue;
		shells[i].write(table, out);
		return NULL;
	}
	return err_new(ERR_INVALID, "name one shell: cay completion bash | zsh | fish");
}
