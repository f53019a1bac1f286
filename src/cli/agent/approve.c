/* SPDX-License-Identifier: Apache-2.0 */
/* `cay approve`: the questions that agents wait for, and their answers. */
#include "base/mem.h"
#include "cli/agent/agent_priv.h"

const struct setting approve_settings[] = {
	{ "always", SETTING_BOOL, "false", NULL,
	  "Also whenever the agent asks for the same again" },
	{ "deny", SETTING_BOOL, "false", NULL, "Do not allow it" },
	ALL_SETTING,
	LIST_SETTING,
	REMOTE_SETTINGS,
	OUTPUT_SETTING,
	{ 0 },
};

static struct err *list(struct remote *r, const struct settings *s)
{
	return cay_list(r, s, &kind_approvals);
}

static struct err *decide(struct remote *r, const struct settings *s)
{
	bool deny = settings_bool(s, "deny"), always = settings_bool(s, "always");
	autofree char *path = cay_path(&kind_approvals, remote_ns(r), settings_arg(s, 0));
	autofree char *body = xasprintf("{\"status\":{\"decision\":\"%s\"}}", deny     ? "Deny"
									      : always ? "Always"
										       : "Once");
	autoptr(json_doc) doc = NULL;
	struct err *e = cay_patch(r, path, "/status", body, &doc);

	if (!e)
		cay_said(s, &kind_approvals, json_root(doc),
			 deny     ? "denied"
			 : always ? "approved, from now on always"
				  : "approved");
	return e;
}

int approve_cmd(const struct command *c, const struct settings *s)
{
	bool lists = !settings_n_args(s) ||
		     (settings_n_args(s) == 1 && str_eq(settings_arg(s, 0), "ls"));

	if (settings_bool(s, "deny") && settings_bool(s, "always"))
		return cli_fail(err_new(ERR_INVALID,
					"approve: --deny and --always cannot be given together"));
	if (lists && (settings_bool(s, "deny") || settings_bool(s, "always")))
		return cli_fail(err_new(ERR_INVALID, "approve: name the question; see cay approve "
						     "ls"));
	return lists ? names_run(c, s, settings_n_args(s), list) : names_run(c, s, 1, decide);
}
