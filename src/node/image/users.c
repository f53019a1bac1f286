/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/image/image_priv.h"

/*
 * The user that an image wants: "name", "1000", "name:group", "1000:1000". An image never changes,
 * so its /etc/passwd and /etc/group are read once, when it comes in, and a launch reads no file.
 * What cannot be found is left out, and said when a Pod wants to start it.
 */
enum {
	FILE_LEN_MAX = 1 << 20,
	FIELDS_MAX = 8,
};

static bool hidden(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0);
}

static bool opaque(int layer, const char *dir)
{
	autoclose fd = -1;

	err_free(file_open_in_root(layer, dir, O_RDONLY | O_DIRECTORY, 0, &fd));
	return fd >= 0 && fgetxattr(fd, LAYER_OPAQUE, NULL, 0) > 0;
}

/* True: look no further. *ret is set if the layer has the file. */
static bool look_in(int layer, const char *path, char **ret)
{
	autoclose etc = -1, fd = -1, plain = -1;
	struct stat st;

	err_free(file_open_in_root(layer, "etc", O_PATH | O_NOFOLLOW, 0, &etc));
	if (etc >= 0 && hidden(etc))
		return true;
	err_free(file_open_in_root(layer, path, O_PATH, 0, &fd));
	if (fd < 0)
		return opaque(layer, "etc");
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return true;
	err_free(file_open_in_root(layer, path, O_RDONLY | O_NONBLOCK, 0, &plain));
	if (plain >= 0) {
		char name[64];

		(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", plain);
		err_free(file_read(AT_FDCWD, name, FILE_LEN_MAX, ret, NULL));
	}
	return true;
}

/* A file as a sandbox would see it through its layers; NULL: it has none. */
static char *read_file(const char *const *layers, const char *path)
{
	char *text = NULL;

	for (; *layers; layers++) {
		autoclose layer = open(*layers, O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (layer >= 0 && look_in(layer, path, &text))
			break;
	}
	return text;
}

/* One line, split at its colons. */
struct line {
	char *text, *field[FIELDS_MAX];
};

static bool next_line(char **rest, struct line *ret)
{
	char *p = *rest;

	if (!p || !*p)
		return false;
	ret->text = p;
	*rest = strchr(p, '\n');
	if (*rest)
		*(*rest)++ = '\0';
	for (size_t i = 0; i < FIELDS_MAX; i++) {
		ret->field[i] = p;
		p = p ? strchr(p, ':') : NULL;
		if (p)
			*p++ = '\0';
	}
	return true;
}

static bool number(const char *text, uint32_t *ret)
{
	uint64_t v;
	struct err *e = text ? parse_uint(text, UINT32_MAX - 1, &v) : NULL;

	if (!text || e) {
		err_free(e);
		return false;
	}
	*ret = (uint32_t)v;
	return true;
}

struct found {
	bool has_uid, has_gid;
	uint32_t uid, gid;
	char *home;
};

static void find_user(char *passwd, const char *want, struct found *f)
{
	struct line l;

	f->has_uid = number(want, &f->uid);
	while (next_line(&passwd, &l)) {
		uint32_t uid, gid;

		if (!number(l.field[2], &uid) || !number(l.field[3], &gid))
			continue;
		if (f->has_uid ? uid != f->uid : !str_eq(l.field[0], want))
			continue;
		*f = (struct found){ .has_uid = true, .has_gid = true, .uid = uid, .gid = gid };
		f->home = str_empty(l.field[5]) ? NULL : xstrdup(l.field[5]);
		return;
	}
	f->has_gid = f->has_uid; /* a number without an entry has group 0 */
}

static void find_group(char *group, const char *want, struct found *f)
{
	struct line l;

	f->has_gid = number(want, &f->gid);
	while (!f->has_gid && next_line(&group, &l))
		f->has_gid = str_eq(l.field[0], want) && number(l.field[2], &f->gid);
}

void users_resolve(const char *const *layers, struct json_doc *config)
{
	const char *text = str_or(json_get_str(json_root(config), "user"), "0");
	autofree char *passwd = read_file(layers, "etc/passwd");
	autofree char *group = read_file(layers, "etc/group");
	autofree char *user = NULL, *wanted_group = NULL;
	struct found f = { 0 };
	struct span rest, first = span_cut(SPAN(text), ':', &rest);

	user = xstrndup(first.p, first.len);
	wanted_group = rest.p && rest.len ? xstrndup(rest.p, rest.len) : NULL;
	find_user(passwd, *user ? user : "0", &f);
	if (wanted_group)
		find_group(group, wanted_group, &f);
	if (f.has_uid && f.has_gid) {
		json_set_int(config, json_root(config), "uid", f.uid);
		json_set_int(config, json_root(config), "gid", f.gid);
		json_set_str(config, json_root(config), "home", f.home);
	}
	free(f.home);
}
