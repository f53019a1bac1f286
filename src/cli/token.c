/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay token`: keys and tokens of agents. Nothing here asks a server: whoever has the key of an
 * agent mints its tokens, and whoever has a token narrows it. A token is read from a file or from
 * standard input, because everybody on a machine can read the arguments of a command.
 */
#include "identity/token.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/verbs.h"
#include "client/http.h"
#include "tls/tls.h"

enum {
	PEM_MAX = 64 * 1024,
};

static const char *const formats[] = { "text", "json", "yaml", "exec", NULL };

const struct setting token_settings[] = {
	{ "key", SETTING_TEXT, NULL, "FILE", "The agent's private key, which mint signs with" },
	{ "key-name", SETTING_TEXT, NULL, "NAME",
	  "Name of the key in the Agent; without one the server tries all keys of the agent" },
	{ "agent", SETTING_TEXT, NULL, "NAMESPACE/NAME", "The agent that the token is of" },
	{ "audience", SETTING_TEXT, NULL, "TEXT",
	  "Instance that the token is for; by default that of the kubeconfig, by its CA" },
	{ "kubeconfig", SETTING_TEXT, NULL, "FILE",
	  "Kubeconfig of the instance; by default $KUBECONFIG or ~/.kube/config",
	  .env = "KUBECONFIG" },
	{ "ttl", SETTING_DURATION, NULL, "TIME",
	  "How long the token is valid, at most 5m, which is what mint takes by default" },
	{ "file", SETTING_TEXT, "-", "FILE", "File with the token; - is standard input",
	  .letter = 'f' },
	{ "right", SETTING_LIST, NULL, "RIGHT",
	  "Leave this right: exec, read, write, ports or lifecycle; may be given several times" },
	{ "tool", SETTING_LIST, NULL, "PATTERN",
	  "Leave MCP tools of this name; may be given several times" },
	{ "sandbox", SETTING_TEXT, NULL, "NAME", "Leave this sandbox alone" },
	{ "sealed", SETTING_BOOL, "false", NULL, "Let nobody narrow the token any further" },
	{ "output", SETTING_CHOICE, "text", "FORMAT",
	  "Output format: text, json, yaml, or exec for kubectl", .choices = formats,
	  .letter = 'o' },
	{ 0 },
};

static bool wants_text(const struct settings *s)
{
	return str_eq(settings_text(s, "output"), "text");
}

static void print(const struct settings *s, const struct json *v)
{
	const char *format = settings_text(s, "output");

	cli_print(v, str_eq(format, "exec") ? "json" : format);
}

static int64_t now_s(void)
{
	return clock_wall() / 1000000;
}

static void set_time(struct json_doc *d, struct json *o, const char *key, int64_t s)
{
	char text[CLOCK_TEXT_MAX];

	clock_format(s * 1000000, text);
	json_set_str(d, o, key, text);
}

/* key */

static struct err *write_new(const char *path, const char *text)
{
	autoclose fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct err *e;

	if (fd < 0)
		return err_sys(errno, "create %s", path);
	e = fd_write_all(fd, text, strlen(text));
	if (e)
		(void)unlink(path); /* half a key is of no use */
	return err_wrap(e, "write %s", path);
}

static struct err *do_key(const struct settings *s)
{
	const char *path = settings_arg(s, 1);
	autoptr(ed25519) k = ed25519_new();
	autofree char *pem = ed25519_pem(k), *text = NULL;
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d), *key = json_obj(d);
	unsigned char pub[ED25519_KEY_LEN];
	struct err *e = write_new(path, pem);

	explicit_bzero(pem, strlen(pem));
	if (e)
		return e;
	ed25519_public(k, pub);
	text = base64_encode(pub, sizeof(pub), false);
	json_set_str(d, key, "name", str_or(settings_text(s, "key-name"), "main"));
	json_set_str(d, key, "publicKey", text);
	json_push(d, json_need_arr(d, o, "keys"), key);
	cli_print(o, wants_text(s) ? "yaml" : settings_text(s, "output"));
	return NULL;
}

/* Audiences */

/* The CA of the cluster that kubectl asks for, if it has started this; malloc'd. */
static struct err *ca_of_kubectl(const char *info, char **ret)
{
	autoptr(json_doc) d = NULL;
	autofree void *pem = NULL;
	const char *data;
	size_t len;
	struct err *e = json_parse(info, strlen(info), NULL, &d);

	if (e)
		return e;
	data = json_get_str(json_at_path(json_root(d), "spec.cluster"),
			    "certificate-authority-data");
	if (!data)
		return err_new(ERR_NOT_FOUND,
			       "kubectl does not say which cluster it asks for; set "
			       "provideClusterInfo: true in the kubeconfig, or give --audience");
	e = base64_decode(data, false, &pem, &len);
	if (!e)
		*ret = xstrndup(pem, len);
	return e;
}

static struct err *audience_of_ca(const char *ca, char **ret)
{
	unsigned char id[SHA256_LEN];
	struct err *e = tls_cert_key_id(ca, id);

	if (!e)
		*ret = identity_audience(id);
	return e;
}

struct err *cli_audience(const char *kubeconfig, char **ret)
{
	struct kubeconfig k = { 0 };
	struct err *e = cli_kubeconfig_read(kubeconfig, &k);

	if (!e && !k.ca_pem)
		e = err_new(ERR_NOT_FOUND, "the kubeconfig names no CA; give --audience");
	if (!e)
		e = audience_of_ca(k.ca_pem, ret);
	kubeconfig_done(&k);
	return e;
}

static struct err *find_audience(const struct settings *s, char **ret)
{
	const char *given = settings_text(s, "audience");
	const char *info = getenv("KUBERNETES_EXEC_INFO");
	autofree char *ca = NULL;
	struct err *e;

	if (given) {
		*ret = xstrdup(given);
		return NULL;
	}
	e = info ? ca_of_kubectl(info, &ca) : cli_audience(settings_text(s, "kubeconfig"), ret);
	if (!e && info)
		e = audience_of_ca(ca, ret);
	return err_wrap(e, "find the audience");
}

static struct err *do_audience(const struct settings *s)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *o = json_obj(d);
	autofree char *audience = NULL;
	autobuf line = { 0 };
	struct err *e = find_audience(s, &audience);

	if (e)
		return e;
	buf_printf(&line, "%s\n", audience);
	json_set_str(d, o, "audience", audience);
	if (wants_text(s))
		cli_write(&line);
	else
		print(s, o);
	return NULL;
}

/* Printing tokens */

/* For kubectl, which starts this again when it has expired. */
static struct json *exec_credential(struct json_doc *d, const char *token,
				    const struct identity_token *t)
{
	struct json *o = json_obj(d), *status;

	json_set_str(d, o, "apiVersion", "client.authentication.k8s.io/v1");
	json_set_str(d, o, "kind", "ExecCredential");
	status = json_need_obj(d, o, "status");
	json_set_str(d, status, "token", token);
	set_time(d, status, "expirationTimestamp", t->grant.expires);
	return o;
}

static struct json *grant_tree(struct json_doc *d, const struct identity_grant *g)
{
	struct json *o = identity_grant_write(g, d);

	(void)json_del(o, "exp");
	return o;
}

static struct err *print_token(const struct settings *s, const char *token)
{
	autoptr(json_doc) d = json_doc_new();
	autoptr(identity_token) t = NULL;
	autobuf line = { 0 };
	struct json *o = json_obj(d);
	struct err *e = identity_token_read(token, &t);

	if (e)
		return e;
	buf_printf(&line, "%s\n", token);
	json_set_str(d, o, "token", token);
	set_time(d, o, "expires", t->grant.expires);
	(void)json_set(d, o, "grant", grant_tree(d, &t->grant));
	if (wants_text(s))
		cli_write(&line);
	else if (str_eq(settings_text(s, "output"), "exec"))
		print(s, exec_credential(d, token, t));
	else
		print(s, o);
	return NULL;
}

/* mint */

static struct err *read_key(const struct settings *s, struct ed25519 **ret)
{
	const char *path = settings_text(s, "key");
	autofree char *pem = NULL;
	size_t len = 0;
	struct err *e;

	if (!path)
		return err_new(ERR_INVALID, "--key is missing: the file that `cay token key` made");
	e = file_read(AT_FDCWD, path, PEM_MAX, &pem, &len);
	if (!e)
		e = ed25519_read(pem, ret);
	if (pem)
		explicit_bzero(pem, len);
	return err_wrap(e, "read the key %s", path);
}

static struct err *do_mint(const struct settings *s)
{
	const char *agent = settings_text(s, "agent"), *slash = agent ? strchr(agent, '/') : NULL;
	autofree char *ns = slash ? xstrndup(agent, (size_t)(slash - agent)) : NULL;
	autofree char *audience = NULL, *token = NULL;
	struct identity_claims c = { .ns = ns,
				     .agent = slash ? slash + 1 : "",
				     .key_name = settings_text(s, "key-name"),
				     .now_s = now_s(),
				     .ttl_s = settings_text(s, "ttl")
						      ? settings_int(s, "ttl") / 1000
						      : IDENTITY_TTL_MAX_S,
				     .sealed = settings_bool(s, "sealed") };
	autoptr(ed25519) key = NULL;
	struct err *e;

	if (!slash)
		return err_new(ERR_INVALID, "--agent must be NAMESPACE/NAME");
	e = read_key(s, &key);
	if (!e)
		e = find_audience(s, &audience);
	if (e)
		return e;
	c.audience = audience;
	e = identity_mint(key, &c, &token);
	return e ? e : print_token(s, token);
}

/* narrow, show */

static struct err *read_stdin(char **ret)
{
	autobuf b = { 0 };
	ssize_t n;

	do {
		n = read(STDIN_FILENO, buf_reserve(&b, 4096), 4096);
		if (n < 0)
			return err_sys(errno, "read standard input");
		buf_wrote(&b, (size_t)n);
	} while (n && b.len <= 2 * IDENTITY_TOKEN_MAX);
	*ret = buf_steal(&b, NULL);
	return NULL;
}

static struct err *read_token(const struct settings *s, char **ret)
{
	const char *path = settings_text(s, "file");
	autofree char *text = NULL;
	struct span token;
	size_t len;
	struct err *e = str_eq(path, "-")
				? read_stdin(&text)
				: file_read(AT_FDCWD, path, 2 * IDENTITY_TOKEN_MAX, &text, &len);

	if (e)
		return err_wrap(e, "read the token");
	token = SPAN(text);
	while (token.len && strchr(" \t\r\n", token.p[token.len - 1]))
		token.len--;
	*ret = xstrndup(token.p, token.len);
	return NULL;
}

static void add_list(const struct settings *s, const char *setting, struct json_doc *d,
		     struct json *block, const char *member)
{
	const char *text;

	for (size_t i = 0; (text = settings_nth(s, setting, i)); i++)
		json_push_str(d, json_need_arr(d, block, member), text);
}

static struct err *do_narrow(const struct settings *s)
{
	autoptr(json_doc) d = json_doc_new();
	struct json *block = json_obj(d);
	autofree char *token = NULL, *narrow = NULL;
	struct err *e;

	add_list(s, "right", d, block, "rights");
	add_list(s, "tool", d, block, "tools");
	json_set_str(d, block, "sandbox", settings_text(s, "sandbox"));
	if (settings_text(s, "ttl"))
		json_set_int(d, block, "exp", now_s() + settings_int(s, "ttl") / 1000);
	if (!json_len(block) && !settings_bool(s, "sealed"))
		return err_new(ERR_INVALID, "nothing is to be taken away: give --right, --tool, "
					    "--sandbox, --ttl or --sealed");
	e = read_token(s, &token);
	if (!e)
		e = identity_narrow(token, json_len(block) ? block : NULL,
				    settings_bool(s, "sealed"), &narrow);
	return e ? e : print_token(s, narrow);
}

static struct json *describe(struct json_doc *d, const struct identity_token *t)
{
	struct json *o = json_obj(d), *blocks = json_arr(d);

	json_set_bool(d, o, "verified", false);
	(void)json_set(d, o, "agent", json_new_strf(d, "%s/%s", t->ns, t->agent));
	json_set_str(d, o, "keyName", *t->key_name ? t->key_name : NULL);
	json_set_str(d, o, "audience", t->audience);
	json_set_str(d, o, "id", t->id);
	set_time(d, o, "issued", t->issued);
	set_time(d, o, "expires", t->grant.expires);
	json_set_bool(d, o, "sealed", t->sealed);
	for (size_t i = 1; i < t->n_blocks; i++) {
		struct json *block = json_copy(d, t->blocks[i]);

		(void)json_del(block, "next");
		json_push(d, blocks, block);
	}
	(void)json_set(d, o, "blocks", blocks);
	(void)json_set(d, o, "grant", grant_tree(d, &t->grant));
	return o;
}

static void print_description(const struct json *o)
{
	autofree char *text = NULL;
	autobuf out = { 0 };

	buf_add_str(&out, "Nothing of this was verified: it is what the token says of itself.\n");
	json_each(it, o) {
		if (str_eq(it.key, "verified"))
			continue;
		buf_printf(&out, "%-10s ", it.key);
		if (json_str(it.val))
			buf_add_str(&out, json_str(it.val));
		else
			json_write(it.val, &out);
		buf_add_char(&out, '\n');
	}
	text = buf_steal(&out, NULL);
	cli_disarm(text, '\n'); /* others may have written it */
	buf_add_str(&out, text);
	cli_write(&out);
}

static struct err *do_show(const struct settings *s)
{
	autoptr(json_doc) d = json_doc_new();
	autoptr(identity_token) t = NULL;
	autofree char *token = NULL;
	struct json *o;
	struct err *e = read_token(s, &token);

	if (!e)
		e = identity_token_read(token, &t);
	if (e)
		return e;
	o = describe(d, t);
	if (wants_text(s))
		print_description(o);
	else
		print(s, o);
	return NULL;
}

static const struct cli_verb verb_table[] = {
	{ "key", 1, 1, "FILE [--key-name NAME]",
	  "Make an Ed25519 key pair. The private key goes into a new FILE that only its owner can read; the public key is printed as it\n"
	  "stands in the manifest of an Agent, below spec.",
	  do_key },
	{ "mint", 0, 0,
	  "--key FILE --agent NAMESPACE/NAME [--key-name NAME] [--ttl TIME] [--audience TEXT] [--sealed]",
	  "Make a token of an agent, by its private key. Whoever has it is the agent, as often as they like until it ends. It is for one\n"
	  "instance. It can be narrowed; with --sealed it is a plain JWT and cannot. As an exec plugin of kubectl, give -o exec.",
	  do_mint },
	{ "narrow", 0, 0,
	  "[-f FILE] [--right RIGHT ...] [--tool PATTERN ...] [--sandbox NAME] [--ttl TIME] [--sealed]",
	  "Take rights away from a token, and print what is left of it as a new one. A right that was taken away before does not come\n"
	  "back, and the token ends no later than it did. No server and no key is needed.",
	  do_narrow },
	{ "show", 0, 0, "[-f FILE]",
	  "Print what a token says: whose it is, its blocks, and what they leave. Signatures are not verified.",
	  do_show },
	{ "audience", 0, 0, "[--kubeconfig FILE]",
	  "Print the audience of the instance of a kubeconfig, for programs that make tokens themselves.",
	  do_audience },
	{ 0 },
};
static const struct cli_verbs verbs = { verb_table, token_settings, NULL };

bool token_help(const struct settings *s, struct buf *out)
{
	return cli_verbs_help("token", s, &verbs, out);
}

int token_run(const struct command *c, const struct settings *s)
{
	return cli_verbs_run(c, s, &verbs);
}
