/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "node/image/image_priv.h"

/* What images are called, and the file that says which image each name stands for. */
enum {
	NAMES_MAX = 64 << 20,
	NAME_LEN_MAX = 512,
	HEX_LEN = 64,
};

char *images_dir(const char *data_dir)
{
	return xasprintf("%s/images", data_dir);
}

/* The first part names a registry if it has a dot or a port, or is localhost. */
static bool has_registry(const char *name)
{
	const char *slash = strchr(name, '/');
	autofree char *first = slash ? xstrndup(name, (size_t)(slash - name)) : NULL;

	return first && (strchr(first, '.') || strchr(first, ':') || str_eq(first, "localhost"));
}

static bool name_chars(const char *s)
{
	for (; *s; s++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@",
			    *s))
			return false;
	return true;
}

bool digest_valid(const char *digest)
{
	const char *hex = str_starts(digest, "sha256:") ? digest + 7 : NULL;

	return hex && strlen(hex) == HEX_LEN && strspn(hex, "0123456789abcdef") == HEX_LEN;
}

char *image_canonical(const char *name, char **ret_digest)
{
	autofree char *bare = NULL;
	const char *at, *slash, *colon;

	if (ret_digest)
		*ret_digest = NULL;
	if (str_empty(name) || strlen(name) > NAME_LEN_MAX || !name_chars(name) || *name == '/' ||
	    *name == ':' || *name == '@' || *name == '-')
		return NULL;
	at = strchr(name, '@');
	bare = at ? xstrndup(name, (size_t)(at - name)) : xstrdup(name);
	if (at && ret_digest)
		*ret_digest = xstrdup(at + 1);
	slash = strrchr(bare, '/');
	colon = strrchr(bare, ':');
	return xasprintf("%s%s%s%s", has_registry(bare) ? "" : "docker.io/",
			 has_registry(bare) || slash ? "" : "library/", bare,
			 colon && (!slash || colon > slash) ? "" : ":latest");
}

struct err *bad_name(const char *name)
{
	return err_new(ERR_INVALID,
		       "\"%s\" is not an image name; a name is like \"tool\" or "
		       "\"registry.example.com/team/tool:1.0\"",
		       name);
}

struct err *no_image(const char *name)
{
	return err_new(ERR_NOT_FOUND, "no image named %s; see cay image ls", name);
}

struct err *name_to_give(const char *name, char **ret)
{
	autofree char *canonical = image_canonical(name, NULL);

	if (!canonical || strchr(name, '@'))
		return bad_name(str_or(name, ""));
	if (names_id(NULL, canonical))
		return err_new(ERR_INVALID, "%s is a built-in image; choose another name", name);
	*ret = take(canonical);
	return NULL;
}

struct err *names_read(const char *data_dir, struct json_doc **ret)
{
	autofree char *path = xasprintf("%s/images/names.json", data_dir), *text = NULL;
	const struct json_limits limits = { .max_len = NAMES_MAX };
	autoptr(json_doc) d = NULL;
	size_t len;
	struct err *e = file_read(AT_FDCWD, path, NAMES_MAX, &text, &len);

	if (err_is(e, ERR_NOT_FOUND)) {
		err_free(e);
		*ret = json_doc_new();
		json_set_root(*ret, json_obj(*ret));
		return NULL;
	}
	if (!e)
		e = json_parse(text, len, &limits, &d);
	if (!e && !json_is(json_root(d), JSON_OBJ))
		e = err_new(ERR_MALFORMED, "the file does not hold a JSON object");
	if (e)
		return err_wrap(e, "read %s", path);
	*ret = take(d);
	return NULL;
}

struct err *names_lock(const char *data_dir, int *ret)
{
	autofree char *dir = images_dir(data_dir), *path = xasprintf("%s/lock", dir);
	struct err *e = file_mkdirs(dir, 0700);

	if (e)
		return e;
	*ret = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (*ret < 0 || flock(*ret, LOCK_EX) < 0)
		return err_sys(errno, "lock %s", path);
	work_sweep(data_dir);
	return NULL;
}

struct err *names_write(const char *data_dir, const struct json_doc *d)
{
	autofree char *path = xasprintf("%s/images/names.json", data_dir);
	autobuf text = { 0 };

	json_write_pretty(json_root(d), &text);
	if (text.len > NAMES_MAX)
		return err_new(ERR_EXHAUSTED,
			       "there are too many images; remove some with cay image rm");
	return file_write_atomic(AT_FDCWD, path, buf_head(&text), text.len, 0600);
}

const char *names_id(const struct json_doc *names, const char *canonical)
{
	static const struct {
		const char *name, *id;
	} own[] = { { "docker.io/library/host:latest", "host" },
		    { "docker.io/library/host:writable", HOST_WRITABLE },
		    { "docker.io/library/pause:latest", "pause" } };

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (str_eq(canonical, own[i].name))
			return own[i].id;
	return names ? json_str(json_get(json_get(json_root(names), "names"), canonical)) : NULL;
}

struct json *names_image(const struct json_doc *names, const char *id)
{
	return id ? json_get(json_get(json_root(names), "images"), id) : NULL;
}

bool names_has_digest(const struct json *image, const char *digest)
{
	if (str_eq(json_get_str(image, "digest"), digest))
		return true;
	json_each(d, json_get(image, "digests"))
		if (str_eq(json_str(d.val), digest))
			return true;
	return false;
}

/* In a file from before that was noted for each name. */
static bool came_from(const struct json_doc *names, const char *key, const char *id)
{
	const char *source = str_or(json_get_str(names_image(names, id), "source"), "");

	return str_starts(source, "docker://") && str_eq(source + strlen("docker://"), key);
}

bool names_pulled(const struct json_doc *names, const char *key, const char *id)
{
	const struct json *pulled = json_get(json_root(names), "pulled");

	if (!id || !pulled)
		return id && came_from(names, key, id);
	return str_eq(json_get_str(pulled, key), id);
}

static struct json *need_pulled(struct json_doc *names)
{
	struct json *pulled = json_get(json_root(names), "pulled");

	if (pulled)
		return pulled;
	pulled = json_need_obj(names, json_root(names), "pulled");
	json_each(n, json_get(json_root(names), "names"))
		if (came_from(names, n.key, json_str(n.val)))
			json_set_str(names, pulled, n.key, json_str(n.val));
	return pulled;
}

void names_give(struct json_doc *names, const char *key, const char *id, bool pulled)
{
	struct json *noted = need_pulled(names);

	names_forget(names, key);
	json_set_str(names, json_need_obj(names, json_root(names), "names"), key, id);
	if (pulled)
		json_set_str(names, noted, key, id);
}

void names_forget(struct json_doc *names, const char *key)
{
	(void)json_del(json_get(json_root(names), "names"), key);
	(void)json_del(json_get(json_root(names), "pulled"), key);
}

/* Up to the digest or the tag. */
static size_t repository_len(const char *key)
{
	const char *at = strchr(key, '@');

	return (size_t)((at ? at : strrchr(key, ':')) - key);
}

char *name_key(const char *name)
{
	autofree char *digest = NULL, *canonical = image_canonical(name, &digest);

	if (!canonical || !digest)
		return take(canonical);
	return xasprintf("%.*s@%s", (int)repository_len(canonical), canonical, digest);
}

const char *names_by_digest(const struct json_doc *names, const char *canonical, const char *digest)
{
	size_t len = repository_len(canonical);

	json_each(n, json_get(json_root(names), "names")) {
		const char *id = json_str(n.val);

		if (strchr(n.key, ':') && repository_len(n.key) == len &&
		    !strncmp(n.key, canonical, len) &&
		    names_has_digest(names_image(names, id), digest))
			return id;
	}
	return NULL;
}

const char *names_id_of(const struct json_doc *names, const char *name)
{
	autofree char *digest = NULL, *canonical = image_canonical(name, &digest);

	if (!canonical)
		return NULL;
	return digest ? names_by_digest(names, canonical, digest) : names_id(names, canonical);
}
