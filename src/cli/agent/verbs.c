/* SPDX-License-Identifier: Apache-2.0 */
/* The words after a command. */
#include "base/buf.h"
#include "base/mem.h"
#include "cli/agent/agent_priv.h"

static struct err *run(const struct settings *s,
		       struct err *(*fn)(struct remote *r, const struct settings *s))
{
	autoptr(remote) r = NULL;
	struct err *e = remote_open(s, &r);

	return e ? e : fn(r, s);
}

static struct err *dispatch(const struct command *c, const struct settings *s,
			    const struct verb *table)
{
	const char *word = settings_arg(s, 0);
	size_t n = settings_n_args(s);

	for (const struct verb *v = table; v->name; v++) {
		if (!str_eq(v->name, word))
			continue;
		if (n - 1 < v->least || n - 1 > v->most)
			return err_new(ERR_INVALID, "cay %s %s takes %s; see cay %s --help",
				       c->name, word,
				       !v->most              ? "no name"
				       : v->least == v->most ? "one name"
							     : "at least one name",
				       c->name);
		return err_wrap(run(s, v->run), "%s", word);
	}
	return err_new(ERR_INVALID, "say what to do: cay %s %s", c->name, c->usage);
}

int verbs_run(const struct command *c, const struct settings *s, const struct verb *table)
{
	struct err *e = dispatch(c, s, table);

	return e ? cli_fail(err_wrap(e, "%s", c->name)) : EXIT_OK;
}

int names_run(const struct command *c, const struct settings *s, size_t n,
	      struct err *(*fn)(struct remote *r, const struct settings *s))
{
	struct err *e = settings_n_args(s) == n
				? run(s, fn)
				: err_new(ERR_INVALID, "usage: cay %s %s", c->name, c->usage);

	return e ? cli_fail(err_wrap(e, "%s", c->name)) : EXIT_OK;
}
