/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which server a command talks to, and as whom: where kubeconfigs are looked for, and what a user
 * is told who has none, or whose server does not answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "cli/cli.h"
#include "client/client.h"
#include "client/http.h"
#include "json/yaml_tree.h"

#define MAX_KUBECONFIG (4 * 1024 * 1024)
#define OWN_NAME       "admin.kubeconfig"

static char *home_kubeconfig(void)
{
	return xasprintf("%s/.kube/config", str_or(getenv("HOME"), ""));
}

static bool in_pod(void)
{
	return getenv("KUBERNETES_SERVICE_HOST");
}

/* With the service that the package installs, and systemd to start it; otherwise by hand. */
char *cli_start_command(const char *data_dir)
{
	static const char *const units[] = { "/etc/systemd/system/cay.service",
					     "/usr/lib/systemd/system/cay.service",
					     "/lib/systemd/system/cay.service" };
	autofree char *usual = file_resolve(CLI_DATA_DIR); /* it may be a link */

	if (!str_eq(data_dir, usual) && !str_eq(data_dir, CLI_DATA_DIR))
		return xasprintf("cay serve --data-dir %s", data_dir);
	for (size_t i = 0; i < ARRAY_LEN(units); i++)
		if (access("/run/systemd/system", F_OK) == 0 && access(units[i], F_OK) == 0)
			return xstrdup("systemctl start cay");
	return xstrdup("cay serve");
}

static struct err *no_server(const char *own, const char *home, const char *data_dir)
{
	autofree char *start = cli_start_command(data_dir);

	if (access(own, R_OK) < 0 && errno == EACCES)
		return err_new(ERR_FORBIDDEN,
			       "this user has no kubeconfig: %s cannot be read, and there is no "
			       "%s; ask whoever runs the server for one (cay user add), or name "
			       "one with --kubeconfig",
			       own, home);
	return err_new(ERR_NOT_FOUND,
		       "no server has been started here: there is no %s and no %s; start one with "
		       "`%s`, or name one with --kubeconfig",
		       own, home, start);
}

/* NULL: it is not set, or empty. */
static const char *env_kubeconfig(void)
{
	const char *path = getenv("KUBECONFIG");

	return str_empty(path) ? NULL : path;
}

struct err *cli_kubeconfig_find(const char *given, const char *data_dir, char **ret)
{
	autofree char *own = xasprintf("%s/" OWN_NAME, data_dir), *home = home_kubeconfig();

	if (given || env_kubeconfig())
		*ret = xstrdup(given ? given : env_kubeconfig());
	else if (access(own, R_OK) == 0)
		*ret = take(own);
	else if (in_pod())
		*ret = NULL;
	else if (access(home, F_OK) == 0 || errno == EACCES) /* reading it says what is wrong */
		*ret = take(home);
	else
		return no_server(own, home, data_dir);
	return NULL;
}

static char *default_kubeconfig(void)
{
	return env_kubeconfig() ? xstrdup(env_kubeconfig()) : home_kubeconfig();
}

struct err *cli_kubeconfig_load(const char *path, struct json_doc **ret, char **ret_path)
{
	autofree char *file = path ? xstrdup(path) : default_kubeconfig();
	autofree char *text = NULL;
	size_t len;
	struct err *e = file_read(AT_FDCWD, file, MAX_KUBECONFIG, &text, &len);

	if (!e)
		e = yaml_parse_one(text, len, ret);
	if (e)
		return err_wrap(e, "read kubeconfig %s", file);
	*ret_path = take(file);
	return NULL;
}

struct err *cli_kubeconfig_read(const char *path, struct kubeconfig *ret)
{
	autoptr(json_doc) doc = NULL;
	autofree char *file = NULL;
	char *slash;
	struct err *e;

	if (!path && !env_kubeconfig() && in_pod())
		return kubeconfig_read(NULL, NULL, ret); /* we run in a Pod of the cluster */
	e = cli_kubeconfig_load(path, &doc, &file);
	if (e)
		return e;
	slash = strrchr(file, '/');
	if (slash)
		*slash = '\0';
	return kubeconfig_read(json_root(doc), slash ? file : ".", ret);
}

struct err *cli_connect(struct loop *l, const char *kubeconfig, struct kinds *kinds,
			struct client **ret)
{
	struct kubeconfig k = { 0 };
	struct err *e = cli_kubeconfig_read(kubeconfig, &k);

	if (!e)
		e = client_http_new(l, &k, "cay/" CAY_VERSION, kinds, ret);
	kubeconfig_done(&k);
	return e;
}
