/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "base/parse.h"
#include "base/platform.h"
#include "base/str.h"
#include "node/image/image_priv.h"

/*
 * The config of an image, which somebody else wrote: checked once, when the image comes in, and
 * kept in a form that a launch needs not doubt.
 */
enum {
	KEEP_MAX = 256 * 1024, /* bytes of what is kept of it */
};

static struct err *wrong(const char *member, const char *want)
{
	return err_new(ERR_INVALID, "the image's config: %s is not %s", member, want);
}

static bool absent(const struct json *v)
{
	return !v || json_is(v, JSON_NULL);
}

static struct err *keep_text(const struct json *from, const char *member, struct json_doc *to,
			     const char *as)
{
	const struct json *v = json_get(from, member);

	if (absent(v))
		return NULL;
	if (!json_is(v, JSON_STR))
		return wrong(member, "a text");
	if (*json_str(v))
		json_set_str(to, json_root(to), as, json_str(v));
	return NULL;
}

static struct err *keep_words(const struct json *from, const char *member, struct json_doc *to,
			      const char *as)
{
	const struct json *v = json_get(from, member);

	if (absent(v))
		return NULL;
	if (!json_is(v, JSON_ARR))
		return wrong(member, "a list of texts");
	json_each(word, v)
		if (!json_is(word.val, JSON_STR))
			return wrong(member, "a list of texts");
	json_set(to, json_root(to), as, json_copy(to, v));
	return NULL;
}

static struct err *keep_labels(const struct json *from, struct json_doc *to)
{
	const struct json *v = json_get(from, "Labels");

	if (absent(v))
		return NULL;
	if (!json_is(v, JSON_OBJ))
		return wrong("Labels", "an object");
	json_each(label, v)
		if (!json_is(label.val, JSON_STR))
			return wrong("Labels", "an object of texts");
	json_set(to, json_root(to), "labels", json_copy(to, v));
	return NULL;
}

/* {"80/tcp": {}} becomes ["80/tcp"]. */
static struct err *keep_ports(const struct json *from, struct json_doc *to)
{
	const struct json *v = json_get(from, "ExposedPorts");

	if (absent(v))
		return NULL;
	if (!json_is(v, JSON_OBJ))
		return wrong("ExposedPorts", "an object");
	json_each(port, v)
		json_push_str(to, json_need_arr(to, json_root(to), "ports"), port.key);
	return NULL;
}

/* "SIGQUIT", "quit", "3", "SIGRTMIN+3"; 0: none of these. */
static int signal_of(const char *text)
{
	const char *name = str_starts(text, "SIG") ? text + 3 : text;
	uint64_t n;
	struct err *e = parse_uint(name, 64, &n);

	if (!e)
		return (int)n;
	err_free(e);
	if (str_starts(name, "RTMIN+")) {
		e = parse_uint(name + strlen("RTMIN+"), 30, &n);
		if (!e)
			return SIGRTMIN + (int)n;
		err_free(e);
	}
	for (int i = 1; i < SIGRTMIN; i++)
		if (sigabbrev_np(i) && str_eq_nocase(sigabbrev_np(i), name))
			return i;
	return str_eq(name, "RTMIN") ? SIGRTMIN : 0;
}

static struct err *keep_signal(const struct json *from, struct json_doc *to)
{
	const struct json *v = json_get(from, "StopSignal");
	int n;

	if (absent(v) || str_eq(json_str(v), ""))
		return NULL;
	n = json_str(v) ? signal_of(json_str(v)) : 0;
	if (n <= 0)
		return wrong("StopSignal", "a signal");
	json_set_int(to, json_root(to), "stopsignal", n);
	return NULL;
}

static struct err *keep(const struct json *root, struct json_doc *to)
{
	static const struct {
		const char *member, *as;
	} texts[] = { { "WorkingDir", "workdir" }, { "User", "user" } },
	  lists[] = { { "Env", "env" }, { "Entrypoint", "entrypoint" }, { "Cmd", "cmd" } },
	  outer[] = { { "created", "created" },
		      { "architecture", "architecture" },
		      { "os", "os" } };
	const struct json *c = json_get(root, "config");
	struct err *e = NULL;

	if (!absent(c) && !json_is(c, JSON_OBJ))
		return wrong("config", "an object");
	for (size_t i = 0; i < ARRAY_LEN(texts) && !e; i++)
		e = keep_text(c, texts[i].member, to, texts[i].as);
	for (size_t i = 0; i < ARRAY_LEN(lists) && !e; i++)
		e = keep_words(c, lists[i].member, to, lists[i].as);
	for (size_t i = 0; i < ARRAY_LEN(outer) && !e; i++)
		e = keep_text(root, outer[i].member, to, outer[i].as);
	if (!e)
		e = keep_labels(c, to);
	if (!e)
		e = keep_ports(c, to);
	return e ? e : keep_signal(c, to);
}

static struct err *read_diff_ids(const struct json *root, struct draft *d)
{
	const struct json *ids = json_at_path(root, "rootfs.diff_ids");

	if (json_len(ids) != d->n_layers)
		return err_new(ERR_INVALID, "the image's config has %zu diff_ids for %zu layers",
			       json_len(ids), d->n_layers);
	for (size_t i = 0; i < d->n_layers; i++) {
		const char *id = json_str(json_at(ids, i));

		if (!digest_valid(str_or(id, "")))
			return err_new(ERR_INVALID,
				       "the image's config: diff_id \"%s\" is not sha256: and 64 "
				       "hexadecimal digits",
				       str_or(id, ""));
		d->layers[i].diff_id = xstrdup(id);
		d->layers[i].dir = xasprintf("layers/%s", id + strlen("sha256:"));
	}
	return NULL;
}

struct err *config_read(const char *text, size_t len, struct draft *d)
{
	autoptr(json_doc) doc = NULL;
	autoptr(json_doc) kept = json_doc_new();
	autofree char *all = NULL;
	const struct json *root;
	struct err *e = json_parse(text, len, NULL, &doc);

	if (e)
		return err_wrap(e, "read the image's config");
	root = json_root(doc);
	if (!json_is(root, JSON_OBJ))
		return wrong("the whole of it", "an object");
	json_set_root(kept, json_obj(kept));
	e = keep(root, kept);
	if (!e)
		e = platform_check(json_get_str(root, "os"), json_get_str(root, "architecture"));
	if (!e)
		e = read_diff_ids(root, d);
	if (e)
		return e;
	all = json_to_text(json_root(kept));
	if (strlen(all) > KEEP_MAX)
		return err_new(ERR_EXHAUSTED,
			       "the image's config has more than %d bytes of variables, labels and "
			       "arguments",
			       KEEP_MAX);
	d->config = take(kept);
	return NULL;
}

struct err *platform_check(const char *os, const char *arch)
{
	if ((str_empty(os) || str_eq(os, "linux")) &&
	    (str_empty(arch) || str_eq(arch, PLATFORM_ARCH)))
		return NULL;
	return err_new(ERR_UNSUPPORTED,
		       "the image is for %s/%s, and this machine is linux/" PLATFORM_ARCH,
		       str_or(os, "linux"), str_or(arch, "?"));
}
