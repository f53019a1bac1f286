/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/buf.h"
#include "guest/execute/words_priv.h"

/*
 * What some /bin/sh takes for itself when it stands first: the reserved words and builtins of dash,
 * bash and busybox. A builtin may differ from the program of its name.
 */
static const char *const shell_words[] = {
	".",       ":",       "alias",  "bg",      "bind",     "break",    "builtin",   "caller",
	"case",    "cd",      "chdir",  "command", "compgen",  "complete", "compopt",   "continue",
	"coproc",  "declare", "dirs",   "disown",  "do",       "done",     "echo",      "elif",
	"else",    "enable",  "esac",   "eval",    "exec",     "exit",     "export",    "false",
	"fc",      "fg",      "fi",     "for",     "function", "getopts",  "hash",      "help",
	"history", "if",      "in",     "jobs",    "kill",     "let",      "local",     "logout",
	"mapfile", "popd",    "printf", "pushd",   "pwd",      "read",     "readarray", "readonly",
	"return",  "select",  "set",    "shift",   "shopt",    "source",   "suspend",   "test",
	"then",    "time",    "times",  "trap",    "true",     "type",     "typeset",   "ulimit",
	"umask",   "unalias", "unset",  "until",   "wait",     "while",
};

/* Characters that mean only themselves to these shells; in the first word they are fewer. */
#define PLAIN_FIRST "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+"
#define PLAIN       PLAIN_FIRST ",:@%="

bool words_plain(const char *text)
{
	size_t first, all;

	text += strspn(text, " ");
	first = strspn(text, PLAIN_FIRST);
	all = strspn(text, PLAIN " ");
	if (!first || text[all] || (text[first] && text[first] != ' '))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(shell_words); i++)
		if (strlen(shell_words[i]) == first && !memcmp(text, shell_words[i], first))
			return false;
	return true;
}

void words_free(char **words)
{
	for (char **w = words; w && *w; w++)
		free(*w);
	free(words);
}

/*
 * Between double quotes a backslash escapes only a quote or itself; elsewhere it escapes anything.
 */
static struct err *quoted(const char **at, char quote, struct buf *word)
{
	const char *p = *at;

	for (; *p && *p != quote; p++) {
		if (quote == '"' && *p == '\\' && (p[1] == '"' || p[1] == '\\'))
			p++;
		buf_add_char(word, *p);
	}
	if (!*p)
		return err_new(ERR_INVALID, "No closing quotation");
	*at = p + 1;
	return NULL;
}

static struct err *one_word(const char **at, char **ret)
{
	autobuf word = { 0 };
	struct err *e = NULL;

	while (!e && **at && !strchr(" \t\r\n", **at)) {
		char c = *(*at)++;

		if (c == '\'' || c == '"') {
			e = quoted(at, c, &word);
		} else if (c == '\\') {
			if (!**at)
				return err_new(ERR_INVALID, "No escaped character");
			buf_add_char(&word, *(*at)++);
		} else {
			buf_add_char(&word, c);
		}
	}
	if (!e)
		*ret = buf_steal(&word, NULL);
	return e;
}

struct err *words_split(const char *text, char ***ret)
{
	char **words = xnew_n(char *, strlen(text) / 2 +
					      2); /* at least one character and a space per word */
	struct err *e;
	size_t n = 0;

	for (;;) {
		text += strspn(text, " \t\r\n");
		if (!*text)
			break;
		e = one_word(&text, &words[n]);
		if (e) {
			words_free(words);
			return e;
		}
		n++;
	}
	*ret = words;
	return NULL;
}
