/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/str.h"
#include "node/image/build_priv.h"

/*
 * The root file system of a build. Packages are unpacked in the order of their file names and their
 * scripts are not run. What the scripts of the common ones would have done is done here:
 *
 *   /bin, /sbin, /lib, /lib64         links into /usr, before anything is unpacked
 *   /etc/passwd, /etc/group, profile  from the masters that base-passwd and others bring
 *   awk, sh                           links to the programs that are there
 *   /etc/ssl/certs                    the certificates of ca-certificates, in one file
 *   var/lib/dpkg/status.d             the control file of each package, where scanners look
 *
 * There is no ld.so.cache: the loader finds Debian's own library directories without one.
 */
enum {
	FILE_LEN_MAX = 256 << 20, /* of one that a recipe adds */
	TEXT_LEN_MAX = 4 << 20,
	DEPTH_MAX = 256,
	USER_ID = 1000, /* of a user that no package brings */
};

struct text {
	const char *p;
	size_t len;
};

/* A file below the root with its directories; it replaces what is there. path has no leading "/".
 */
static struct err *put_file(int root, const char *path, struct text text, mode_t mode)
{
	const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
	autofree char *up = slash ? xstrndup(path, (size_t)(slash - path)) : xstrdup(".");
	autoclose dir = -1, fd = -1;
	struct err *e = layer_need_dir(root, up, &dir);

	if (e)
		return err_wrap(e, "write /%s", path);
	(void)unlinkat(dir, last, 0); /* often it is not there */
	fd = openat(dir, last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(errno, "create /%s", path);
	e = fd_write_all(fd, text.p, text.len);
	if (!e && fchmod(fd, mode) < 0)
		e = err_sys(errno, "change mode");
	return err_wrap(e, "write /%s", path);
}

static bool has(int root, const char *path)
{
	autoclose fd = -1;

	err_free(file_open_in_root(root, path, O_PATH, 0, &fd));
	return fd >= 0;
}

/* A file below the root; absent: *ret stays NULL. */
static struct err *get_file(int root, const char *path, char **ret, size_t *ret_len)
{
	autoclose fd = -1;
	char name[64];
	struct stat st;
	struct err *e = file_open_in_root(root, path, O_RDONLY | O_NONBLOCK, 0, &fd);

	if (err_is(e, ERR_NOT_FOUND)) {
		err_free(e);
		return NULL;
	}
	if (e)
		return e;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_new(ERR_INVALID, "/%s is not a file", path);
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return file_read(AT_FDCWD, name, TEXT_LEN_MAX, ret, ret_len);
}

static struct err *make_dir(int root, const char *path, mode_t mode)
{
	autoclose dir = -1;
	struct err *e = layer_need_dir(root, path, &dir);

	if (!e && fchmod(dir, mode) < 0)
		e = err_sys(errno, "change the mode of /%s", path);
	return e;
}

/* Debian's layout since 12, in which packages of both kinds meet. */
static struct err *make_frame(int root)
{
	static const char *const merged[] = { "bin", "sbin", "lib", "lib64" };
	struct err *e = make_dir(root, "etc", 0755);

	for (size_t i = 0; i < ARRAY_LEN(merged) && !e; i++) {
		autofree char *path = xasprintf("usr/%s", merged[i]);

		e = make_dir(root, path, 0755);
		if (!e && symlinkat(path, root, merged[i]) < 0)
			e = err_sys(errno, "make link /%s", merged[i]);
	}
	if (!e)
		e = make_dir(root, "tmp", 01777);
	return e ? e : make_dir(root, "root", 0700);
}

/* The value of a field that is one line; NULL: there is none. */
static char *field(const char *control, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = control; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (!strncmp(p, name, len) && p[len] == ':') {
			p += len + 1;
			p += strspn(p, " \t");
			return xstrndup(p, strcspn(p, "\n"));
		}
	}
	return NULL;
}

static struct err *note_package(int root, const char *control)
{
	autofree char *name = field(control, "Package"), *path = NULL;

	if (str_empty(name) || name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789+-.")] ||
	    *name == '.')
		return err_new(ERR_MALFORMED, "its control file has no name of a package");
	path = xasprintf("var/lib/dpkg/status.d/%s", name);
	return put_file(root, path, (struct text){ control, strlen(control) }, 0644);
}

static struct err *add_package(struct build *b, const char *path)
{
	const struct layer_job job = { .keep_links = true };
	autoclose fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	autofree char *control = NULL;
	struct stat st;
	struct err *e;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(errno, "open");
	if (!S_ISREG(st.st_mode))
		return err_new(ERR_INVALID, "it is not a file");
	e = deb_unpack(fd, b->work_fd, b->root, &job, &control);
	b->unpacked += (uint64_t)st.st_size;
	return e ? e : note_package(b->root, control);
}

static struct err *add_packages(struct build *b)
{
	for (size_t i = 0; i < b->n_debs; i++) {
		const char *slash = strrchr(b->debs[i], '/');
		struct err *e = b->stopped ? err_new(ERR_CANCELED, "stopped by a signal")
					   : add_package(b, b->debs[i]);

		if (e)
			return err_wrap(e, "unpack %s", slash ? slash + 1 : b->debs[i]);
	}
	return NULL;
}

/* What scripts copy. */
static struct err *copy_masters(int root)
{
	static const struct {
		const char *from, *to;
	} rows[] = {
		{ "usr/share/base-passwd/passwd.master", "etc/passwd" },
		{ "usr/share/base-passwd/group.master", "etc/group" },
		{ "usr/share/libc-bin/nsswitch.conf", "etc/nsswitch.conf" },
		{ "usr/share/base-files/profile", "etc/profile" },
		{ "usr/share/base-files/dot.profile", "root/.profile" },
		{ "usr/share/base-files/dot.bashrc", "root/.bashrc" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *text = NULL;
		size_t len = 0;
		struct err *e =
			has(root, rows[i].to) ? NULL : get_file(root, rows[i].from, &text, &len);

		if (!e && text)
			e = put_file(root, rows[i].to, (struct text){ text, len }, 0644);
		if (e)
			return e;
	}
	return NULL;
}

/* What alternatives are for: the first program that is there gets the name. */
static struct err *link_programs(int root)
{
	static const struct {
		const char *name, *to;
	} rows[] = {
		{ "awk", "mawk" },    { "awk", "gawk" },      { "awk", "original-awk" },
		{ "sh", "dash" },     { "sh", "bash" },       { "vi", "vim.basic" },
		{ "vi", "vim.tiny" }, { "nc", "nc.openbsd" }, { "pager", "less" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *name = xasprintf("usr/bin/%s", rows[i].name);
		autofree char *to = xasprintf("usr/bin/%s", rows[i].to);
		autoclose dir = -1;
		struct err *e;

		if (has(root, name) || !has(root, to))
			continue;
		e = layer_need_dir(root, "usr/bin", &dir);
		if (e)
			return e;
		(void)unlinkat(dir, rows[i].name, 0); /* a link that leads nowhere */
		if (symlinkat(rows[i].to, dir, rows[i].name) < 0)
			return err_sys(errno, "make link /%s", name);
	}
	return NULL;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_dots(const struct dirent *d)
{
	return !str_eq(d->d_name, ".") && !str_eq(d->d_name, "..");
}

/* Calls fn for each entry of a directory in the order of names. */
static struct err *each_entry(int dir, struct err *(*fn)(void *arg, int dir, const char *name),
			      void *arg)
{
	struct dirent **list = NULL;
	int n = scandirat(dir, ".", &list, not_dots, by_name);
	struct err *e = n < 0 ? err_sys(errno, "list directory") : NULL;

	for (int i = 0; i < n; i++) {
		if (!e)
			e = err_wrap(fn(arg, dir, list[i]->d_name), "%s", list[i]->d_name);
		free(list[i]);
	}
	free(list);
	return e;
}

static struct err *open_dir(int at, const char *name, int *ret)
{
	*ret = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret < 0 ? err_sys(errno, "open directory") : NULL;
}

static struct err *add_certificates(void *arg, int at, const char *name)
{
	struct buf *out = arg;
	autofree char *text = NULL;
	autoclose dir = -1;
	struct stat st;
	struct err *e;

	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(errno, "look at it");
	if (S_ISDIR(st.st_mode)) {
		e = open_dir(at, name, &dir);
		return e ? e : each_entry(dir, add_certificates, out);
	}
	if (!S_ISREG(st.st_mode) || !str_ends(name, ".crt"))
		return NULL;
	e = file_read(at, name, TEXT_LEN_MAX, &text, NULL);
	if (e)
		return e;
	buf_add_str(out, text);
	if (!str_ends(text, "\n"))
		buf_add_char(out, '\n');
	return NULL;
}

static struct err *join_certificates(int root)
{
	autobuf all = { 0 };
	autoclose dir = -1;
	struct err *e = file_open_in_root(root, "usr/share/ca-certificates", O_RDONLY | O_DIRECTORY,
					  0, &dir);

	if (e) {
		err_free(e); /* there are none */
		return NULL;
	}
	e = each_entry(dir, add_certificates, &all);
	if (e || !all.len)
		return e;
	return put_file(root, "etc/ssl/certs/ca-certificates.crt",
			(struct text){ buf_head(&all), all.len }, 0644);
}

/* Whether a file of lines has one that begins with this name and a colon. */
static bool has_line(const char *text, const char *name)
{
	autofree char *value = field(text, name);

	return value != NULL;
}

static struct err *add_line(int root, const char *path, const char *text, const char *line)
{
	autofree char *all = xasprintf("%s%s", text, line);

	return put_file(root, path, (struct text){ all, strlen(all) }, 0644);
}

static struct err *add_user(int root, const char *name, const char *passwd, const char *group)
{
	autofree char *home = xasprintf("home/%s", name);
	autofree char *user_line =
		xasprintf("%s:x:%d:%d::/%s:/bin/sh\n", name, USER_ID, USER_ID, home);
	autofree char *group_line = xasprintf("%s:x:%d:\n", name, USER_ID);
	autoclose dir = -1;
	struct err *e = layer_need_dir(root, home, &dir);

	if (!e && fchown(dir, USER_ID, USER_ID) < 0)
		e = err_sys(errno, "change the owner of /%s", home);
	if (!e)
		e = add_line(root, "etc/passwd", passwd, user_line);
	if (!e && !has_line(group, name))
		e = add_line(root, "etc/group", group, group_line);
	return e;
}

/* Root and nobody are always there; so is the user that the recipe names. */
static struct err *settle_users(int root, const char *user)
{
	autofree char *passwd = NULL, *group = NULL;
	autofree char *name = user ? xstrndup(user, strcspn(user, ":")) : NULL;
	struct err *e = get_file(root, "etc/passwd", &passwd, NULL);

	if (!e)
		e = get_file(root, "etc/group", &group, NULL);
	if (!e && !passwd) {
		passwd = xstrdup("root:x:0:0:root:/root:/bin/sh\n"
				 "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
		e = add_line(root, "etc/passwd", passwd, "");
	}
	if (!e && !group) {
		group = xstrdup("root:x:0:\nnogroup:x:65534:\n");
		e = add_line(root, "etc/group", group, "");
	}
	if (e || !name || !name[strspn(name, "0123456789")] || has_line(passwd, name))
		return e;
	if (name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-")] || *name == '-')
		return err_new(ERR_INVALID, "user: \"%s\" is not the name of a user", name);
	return add_user(root, name, passwd, group);
}

static struct err *read_from(const struct build *b, const char *from, char **ret, size_t *ret_len)
{
	autoclose dir = open(b->spec->files_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (dir < 0)
		return err_sys(errno, "open %s", b->spec->files_dir);
	if (fstatat(dir, from, &st, 0) < 0)
		return err_sys(errno, "open %s", from);
	if (!S_ISREG(st.st_mode))
		return err_new(ERR_INVALID, "%s is not a file", from);
	return file_read(dir, from, FILE_LEN_MAX, ret, ret_len);
}

static struct err *add_files(const struct build *b)
{
	json_each(it, json_get(b->spec->recipe, "files")) {
		const struct json *content = json_get(it.val, "content");
		const char *path = json_get_str(it.val, "path");
		struct text text = { json_str(content), json_str_len(content) };
		autofree char *bytes = NULL;
		struct err *e = NULL;

		if (!content) {
			e = read_from(b, json_get_str(it.val, "from"), &bytes, &text.len);
			text.p = bytes;
		}
		if (!e)
			e = put_file(b->root, path + strspn(path, "/"), text, recipe_mode(it.val));
		if (e)
			return err_wrap(e, "add %s", path);
	}
	return NULL;
}

/* Manuals and translations, which nobody reads in a sandbox, and what a running system leaves.
 * Licences stay. */
static struct err *clean_up(int root)
{
	static const char *const gone[] = { "usr/share/man",    "usr/share/info",
					    "usr/share/locale", "usr/share/lintian",
					    "var/cache",        "var/log" };
	static const char *const stay[] = { "var/cache", "var/log" };
	struct err *e = NULL;

	for (size_t i = 0; i < ARRAY_LEN(gone) && !e; i++) {
		const char *slash = strrchr(gone[i], '/');
		autofree char *up = xstrndup(gone[i], (size_t)(slash - gone[i]));
		autoclose dir = -1;

		e = layer_need_dir(root, up, &dir);
		if (!e)
			e = file_remove_tree(dir, slash + 1);
	}
	for (size_t i = 0; i < ARRAY_LEN(stay) && !e; i++)
		e = make_dir(root, stay[i], 0755);
	return e;
}

/* Times that say nothing about the day of the build; and the size of it all. */
static struct err *settle_times(void *arg, int at, const char *name)
{
	struct build *b = arg;
	autoclose dir = -1;
	struct stat st;
	struct err *e = NULL;
	struct timespec t[2];

	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(errno, "look at it");
	if (S_ISREG(st.st_mode))
		b->size += (uint64_t)st.st_size;
	if (S_ISDIR(st.st_mode)) {
		e = open_dir(at, name, &dir);
		if (!e)
			e = each_entry(dir, settle_times, b);
	}
	if (e)
		return e;
	t[1] = (struct timespec){ .tv_sec = MIN((int64_t)st.st_mtim.tv_sec, b->epoch) };
	t[0] = t[1];
	return utimensat(at, name, t, AT_SYMLINK_NOFOLLOW) < 0 ? err_sys(errno, "set its time")
							       : NULL;
}

struct err *build_fill_root(struct build *b)
{
	struct err *e = make_frame(b->root);

	if (!e)
		e = add_packages(b);
	if (!e)
		e = copy_masters(b->root);
	if (!e)
		e = link_programs(b->root);
	if (!e)
		e = join_certificates(b->root);
	if (!e)
		e = clean_up(b->root);
	if (!e)
		e = add_files(b);
	if (!e)
		e = settle_users(b->root, json_get_str(b->spec->recipe, "user"));
	return e ? e : each_entry(b->root, settle_times, b);
}
