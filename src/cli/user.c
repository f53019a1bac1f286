/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay user`: credentials for people and programs. The server makes them (/cay/v1/users), this
 * command turns one into a kubeconfig. Rights come from bindings and not from here.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/verbs.h"
#include "client/http.h"
#include "net/http_client.h"

static const char *const formats[] = { "text", "json", "yaml", NULL };

const struct setting user_settings[] = {
	{ "group", SETTING_LIST, NULL, "NAME", "Group of the user; may be given several times",
	  .letter = 'g' },
	{ "ttl", SETTING_DURATION, "2160h", "TIME",
	  "How long the credential is valid, from 1m to 8784h",
	  .max = INT64_C(8784) * 3600 * 1000 },
	{ "token", SETTING_BOOL, "false", NULL, "Make a token instead of a client certificate" },
	{ "kubeconfig", SETTING_TEXT, NULL, "FILE",
	  "Write the user's kubeconfig to this new file instead of standard output" },
	{ "namespace", SETTING_TEXT, "default", "NAME", "Namespace that the kubeconfig names",
	  .letter = 'n' },
	{ "data-dir", SETTING_DIR, CLI_DATA_DIR, "DIR",
	  "Data directory of the server, where admin.kubeconfig is" },
	{ "output", SETTING_CHOICE, "text", "FORMAT", "Output format: text, json or yaml",
	  .choices = formats, .letter = 'o' },
	{ 0 },
};

/* One request to the server, as its administrator. */
struct ask {
	struct cli_server server;
	int status;
	struct buf answer;
};

static enum err_code code_of(int status)
{
	return status == 400   ? ERR_INVALID
	       : status == 404 ? ERR_NOT_FOUND
	       : status == 409 ? ERR_EXISTS
			       : ERR_FORBIDDEN;
}

static struct err *read_answer(struct ask *a, struct json_doc **ret)
{
	struct err *e = json_parse(buf_str(&a->answer), a->answer.len, NULL, ret);

	if (e)
		return err_wrap(e, "read the server's answer (%d)", a->status);
	if (a->status < 300)
		return NULL;
	e = err_new(code_of(a->status), "%s",
		    str_or(json_get_str(json_root(*ret), "message"), "the server refused"));
	json_doc_free(take(*ret));
	return e;
}

static struct err *exchange(struct ask *a, const char *method, const char *path, struct buf *body)
{
	autofree char *target = xasprintf("%s%s", a->server.prefix, path);
	struct http_headers h = { 0 };
	struct err *e;

	http_headers_add(&h, "Host", a->server.host);
	http_headers_add(&h, "Content-Type", "application/json");
	if (a->server.authorization)
		http_headers_add(&h, "Authorization", a->server.authorization);
	e = cli_exchange(&(struct cli_request){ .addr = a->server.addr,
						.method = method,
						.target = target,
						.headers = &h,
						.body = body,
						.wrap = cli_server_wrap,
						.wrap_arg = &a->server },
			 &a->status, &a->answer);
	http_headers_done(&h);
	if (err_errno(e) == ECONNREFUSED)
		return cli_server_refused(&a->server, e);
	return err_wrap(e, "ask the server at %s", a->server.addr);
}

static struct err *no_server(const struct settings *s, const char *admin, struct err *e)
{
	autofree char *start = cli_start_command(settings_text(s, "data-dir"));

	if (!err_is(e, ERR_NOT_FOUND))
		return err_wrap(e, "find the server (--data-dir names its directory)");
	err_free(e);
	return err_new(ERR_NOT_FOUND,
		       "no server has been started here: there is no %s; start one with `%s`, or "
		       "name its directory with --data-dir",
		       admin, start);
}

/* path is below /cay/v1/users. */
static struct err *ask(const struct settings *s, const char *method, const char *path,
		       struct buf *body, struct json_doc **ret)
{
	autofree char *admin = xasprintf("%s/admin.kubeconfig", settings_text(s, "data-dir"));
	autofree char *target = xasprintf("/cay/v1/users%s", path);
	struct ask a = { 0 };
	struct err *e = cli_server_find(admin, &a.server);

	if (e)
		e = no_server(s, admin, e);
	else
		e = exchange(&a, method, target, body);
	if (!e)
		e = read_answer(&a, ret);
	cli_server_done(&a.server);
	buf_done(&a.answer);
	return e;
}

static bool wants_text(const struct settings *s)
{
	return str_eq(settings_text(s, "output"), "text");
}

/* add */

static void write_wish(const struct settings *s, struct buf *out)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d), *groups = json_arr(d);
	const char *group;

	json_set_str(d, o, "name", settings_arg(s, 1));
	for (size_t i = 0; (group = settings_nth(s, "group", i)); i++)
		json_push_str(d, groups, group);
	(void)json_set(d, o, "groups", groups);
	json_set_int(d, o, "ttlSeconds", settings_int(s, "ttl") / 1000);
	json_set_str(d, o, "credential", settings_bool(s, "token") ? "token" : "certificate");
	json_write(o, out);
}

static void add_pem(struct buf *out, const char *key, const char *pem)
{
	autofree char *text = base64_encode(pem, strlen(pem), false);

	buf_printf(out, "    %s: %s\n", key, text);
}

/* A JSON string is one in YAML too, whatever is in it. */
static void add_text(struct buf *out, const char *before, const char *text)
{
	autoptr(json_doc) d = json_doc_new();

	buf_add_str(out, before);
	json_write(json_new_str(d, text), out);
	buf_add_char(out, '\n');
}

static struct err *kubeconfig_of(const struct settings *s, const struct json *made, struct buf *out)
{
	autofree char *admin = xasprintf("%s/admin.kubeconfig", settings_text(s, "data-dir"));
	const char *name = str_or(json_get_str(made, "name"), "");
	const char *token = json_get_str(made, "token");
	struct kubeconfig k = { 0 };
	struct err *e = cli_kubeconfig_read(admin, &k);

	if (e)
		return e;
	buf_add_str(out, "apiVersion: v1\nkind: Config\nclusters:\n- name: cay\n  cluster:\n");
	add_text(out, "    server: ", k.server);
	kubeconfig_done(&k);
	add_pem(out, "certificate-authority-data", str_or(json_get_str(made, "ca"), ""));
	add_text(out, "users:\n- name: ", name);
	buf_add_str(out, "  user:\n");
	if (token) {
		add_text(out, "    token: ", token);
	} else {
		add_pem(out, "client-certificate-data",
			str_or(json_get_str(made, "certificate"), ""));
		add_pem(out, "client-key-data", str_or(json_get_str(made, "key"), ""));
	}
	add_text(out, "contexts:\n- name: cay\n  context:\n    cluster: cay\n    user: ", name);
	add_text(out, "    namespace: ", settings_text(s, "namespace"));
	buf_add_str(out, "current-context: cay\n");
	return NULL;
}

/* It must not exist: it might be the kubeconfig of somebody else. */
static struct err *reserve(const char *path, int *ret)
{
	*ret = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return *ret < 0 ? err_sys(errno, "create %s", path) : NULL;
}

static struct err *put(int fd, const char *path, struct buf *text)
{
	while (text->len) {
		ssize_t n = write(fd, buf_head(text), text->len);

		if (n < 0)
			return err_sys(errno, "write %s", path);
		buf_eat(text, (size_t)n);
	}
	return NULL;
}

static struct err *show_added(const struct settings *s, const struct json *made, int fd)
{
	const char *path = settings_text(s, "kubeconfig");
	autobuf text = { 0 }, line = { 0 };
	struct err *e = kubeconfig_of(s, made, &text);

	if (!e && path)
		e = put(fd, path, &text);
	if (e)
		return e;
	if (!wants_text(s))
		cli_print(made, settings_text(s, "output"));
	else if (!path)
		cli_write(&text);
	else
		buf_printf(&line,
			   "%s: valid until %s; give it rights, for example: kubectl create "
			   "rolebinding %s --clusterrole edit --user %s -n NAMESPACE\n",
			   path, str_or(json_get_str(made, "expires"), "?"),
			   str_or(json_get_str(made, "name"), ""),
			   str_or(json_get_str(made, "name"), ""));
	if (line.len)
		cli_write(&line);
	return NULL;
}

static struct err *do_add(const struct settings *s)
{
	const char *path = settings_text(s, "kubeconfig");
	autoptr(json_doc) made = NULL;
	autoclose fd = -1;
	autobuf body = { 0 };
	struct err *e = path ? reserve(path, &fd) : NULL;

	if (e)
		return e;
	write_wish(s, &body);
	e = ask(s, "POST", "", &body, &made);
	if (!e)
		e = show_added(s, json_root(made), fd);
	if (e && path)
		(void)unlink(path); /* nothing of use is in it */
	return e;
}

/* ls, rm */

static void print_users(const struct json *items)
{
	autobuf out = { 0 };

	buf_printf(&out, "%-24s %-12s %-22s %s\n", "NAME", "CREDENTIAL", "EXPIRES", "GROUPS");
	json_each(it, items) {
		const char *expires = str_or(json_get_str(it.val, "expires"), "?");
		bool over = json_get_bool(it.val, "expired", false);

		buf_printf(&out, "%-24s %-12s %-22s ", str_or(json_get_str(it.val, "name"), "?"),
			   str_or(json_get_str(it.val, "credential"), "?"),
			   over ? "expired" : expires);
		json_each(group, json_get(it.val, "groups"))
			buf_printf(&out, "%s%s", group.i > 1 ? "," : "",
				   str_or(json_str(group.val), "?"));
		buf_add_char(&out, '\n');
	}
	cli_write(&out);
}

static struct err *do_list(const struct settings *s)
{
	autoptr(json_doc) d = NULL;
	autobuf none = { 0 };
	struct err *e = ask(s, "GET", "", &none, &d);

	if (e)
		return e;
	if (wants_text(s))
		print_users(json_get(json_root(d), "items"));
	else
		cli_print(json_root(d), settings_text(s, "output"));
	return NULL;
}

static struct err *do_remove(const struct settings *s)
{
	autofree char *name = url_encode(settings_arg(s, 1));
	autofree char *path = xasprintf("/%s", name);
	autoptr(json_doc) d = NULL;
	autobuf body = { 0 }, line = { 0 };
	struct err *e = ask(s, "DELETE", path, &body, &d);

	if (e)
		return e;
	if (!wants_text(s)) {
		cli_print(json_root(d), settings_text(s, "output"));
		return NULL;
	}
	buf_printf(&line, "%s has no valid credential any more\n", settings_arg(s, 1));
	cli_write(&line);
	return NULL;
}

static const struct cli_verb verb_table[] = {
	{ "ls", 0, 0, "", "List the users that were made here, and until when they are valid.",
	  do_list },
	{ "add", 1, 1, "NAME [--group NAME ...] [--kubeconfig FILE] [--ttl TIME] [--token]",
	  "Make a credential for a user, a client certificate or a token, and print a kubeconfig with it. The user has no rights\n"
	  "until a binding gives it some: `kubectl create rolebinding NAME --clusterrole edit --user NAME`.",
	  do_add },
	{ "rm", 1, 1, "NAME",
	  "End the credential of a user at once. What it has open is cut. Its bindings stay.",
	  do_remove },
	{ 0 },
};
static const struct cli_verbs verbs = { verb_table, user_settings, "ls" };

bool user_help(const struct settings *s, struct buf *out)
{
	return cli_verbs_help("user", s, &verbs, out);
}

int user_run(const struct command *c, const struct settings *s)
{
	return cli_verbs_run(c, s, &verbs);
}
