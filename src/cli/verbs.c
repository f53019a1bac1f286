/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs.h"

#include "base/buf.h"
#include "base/str.h"

static const struct cli_verb *find(const struct cli_verbs *v, const char *name)
{
	for (const struct cli_verb *one = v->all; name && one->name; one++)
		if (str_eq(one->name, name))
			return one;
	return NULL;
}

int cli_verbs_run(const struct command *c, const struct settings *s, const struct cli_verbs *v)
{
	const char *word = settings_arg(s, 0);
	const struct cli_verb *one = find(v, word ? word : v->usual);
	size_t n = word ? settings_n_args(s) - 1 : 0;
	struct err *e;

	if (!one)
		return cli_fail(err_new(ERR_INVALID, "usage: cay %s %s", c->name, c->usage));
	if (n < one->least || n > one->most)
		return cli_fail(err_new(ERR_INVALID, "usage: cay %s %s%s%s", c->name, one->name,
					*one->usage ? " " : "", one->usage));
	if (one->judge)
		return one->judge(s);
	e = one->run(s);
	return e ? cli_fail(err_wrap(e, "%s %s", c->name, one->name)) : EXIT_OK;
}

bool cli_verbs_help(const char *command, const struct settings *s, const struct cli_verbs *v,
		    struct buf *out)
{
	const struct cli_verb *one = find(v, settings_arg(s, 0));

	if (!one)
		return false;
	buf_printf(out, "usage: cay %s %s%s%s [flags]\n\n%s\n\n", command, one->name,
		   *one->usage ? " " : "", one->usage, one->help);
	settings_help(v->settings, out);
	return true;
}
