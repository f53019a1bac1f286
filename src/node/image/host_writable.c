/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/image/image_priv.h"

/*
 * `host:writable`: the skeleton of `host` with what dpkg, apt and the scripts of packages need to
 * know of this machine, and a layer that makes /usr writable (host_usr.c). Only what everybody may
 * read on the machine is copied, and no file of /etc in which a password or a private key is found.
 *
 * A file of the machine's /usr is not root's inside, and links to such files are forbidden to
 * others (fs.protected_hardlinks). dpkg makes one of each file that it replaces. So before dpkg
 * unpacks or removes a package, a hook of its own replaces the machine's files of that package by
 * copies.
 */
enum {
	SYSTEM_ID_MAX = 999,
	TEXT_MAX = 4 << 20,
	FIELDS = 7, /* of a line of passwd */
};

static const char *const dirs[] = {
	"var/backups",
	"var/cache/apt",
	"var/cache/apt/archives",
	"var/cache/apt/archives/partial",
	"var/cache/debconf",
	"var/lib/apt",
	"var/lib/apt/lists",
	"var/lib/apt/lists/partial",
	"var/lib/dpkg",
	"var/lib/dpkg/updates",
	"var/lib/misc",
	"var/log/apt",
	"var/mail",
	"etc/apt",
	"etc/default",
	"etc/init.d",
};

static const char *const from_machine[] = {
	"etc/adduser.conf",
	"etc/bash.bashrc",
	"etc/debconf.conf",
	"etc/deluser.conf",
	"etc/dpkg",
	"etc/perl",
	"etc/profile",
	"etc/skel",
	"etc/ucf.conf",
	"etc/apt/apt.conf",
	"etc/apt/apt.conf.d",
	"etc/apt/keyrings",
	"etc/apt/preferences",
	"etc/apt/preferences.d",
	"etc/apt/sources.list",
	"etc/apt/sources.list.d",
	"etc/apt/trusted.gpg",
	"etc/apt/trusted.gpg.d",
	"var/lib/apt/extended_states",
	"var/lib/dpkg/alternatives",
	"var/lib/dpkg/arch",
	"var/lib/dpkg/diversions",
	"var/lib/dpkg/info",
	"var/lib/dpkg/statoverride",
	"var/lib/dpkg/status",
	"var/lib/dpkg/triggers",
};
/* Only parts of these are. */
static const char *const read_too[] = { "/etc/group", "/etc/passwd" };

#define PAM(kind) kind " required pam_unix.so\n"

static const struct {
	const char *name, *text;
} etc_files[] = {
	/* A conffile of the machine's that was not copied was not removed by a user. */
	{ "dpkg/dpkg.cfg.d/cay", "pre-invoke=/usr/lib/cay/own-files $PPID\n"
				 "force-confmiss\nforce-confdef\nforce-confold\n" },
	{ "pam.d/common-account", PAM("account") },
	{ "pam.d/common-auth", PAM("auth") },
	{ "pam.d/common-password", PAM("password") },
	{ "pam.d/common-session", PAM("session") },
	{ "pam.d/common-session-noninteractive", PAM("session") },
};

static const struct {
	const char *name, *text;
} usr_programs[] = {
	/* As in images of containers: services start only when somebody starts them. */
	{ "sbin/policy-rc.d", "#!/bin/sh\nexit 101\n" },
	{ "lib/cay/own-files",
	  "#!/bin/sh\n"
	  "# own-files PID: dpkg calls it, with its own number, before it unpacks or removes packages. Files of the machine's in\n"
	  "# these packages, which dpkg could not replace, become copies of the sandbox's own.\n"
	  "case $DPKG_HOOK_ACTION in\n"
	  "unpack | install | remove | purge) ;;\n"
	  "*) exit 0 ;;\n"
	  "esac\n"
	  "export LC_ALL=C\n"
	  "of_deb() {\n"
	  "\tdpkg-deb --fsys-tarfile \"$1\" | tar --quoting-style=literal -t | sed 's,^\\.,,'\n"
	  "\tdpkg-query -L \"$(dpkg-deb -f \"$1\" Package)\"\n"
	  "}\n"
	  "tr '\\0' '\\n' <\"/proc/$1/cmdline\" | tail -n +2 | while IFS= read -r word; do\n"
	  "\tcase $word in -*) continue ;; esac\n"
	  "\tif [ -d \"$word\" ]; then\n"
	  "\t\tfind -L \"$word\" -type f -name '*.deb' | while IFS= read -r deb; do of_deb \"$deb\"; done\n"
	  "\telif [ -f \"$word\" ]; then\n"
	  "\t\tof_deb \"$word\"\n"
	  "\telse\n"
	  "\t\tdpkg-query -L \"$word\"\n"
	  "\tfi\n"
	  "done 2>/dev/null | sort -u | xargs -r -d '\\n' sh -c 'find \"$@\" -maxdepth 0 -type f -user 65534 2>/dev/null' - |\n"
	  "while IFS= read -r file; do\n"
	  "\tif ! [ -r \"$file\" ]; then\n"
	  "\t\trm -f -- \"$file\" # only root of the machine may read it: it is of no use here\n"
	  "\telif ! { cp --preserve=mode,timestamps -- \"$file\" \"$file.cay-own\" && mv -f -- \"$file.cay-own\" \"$file\"; }; then\n"
	  "\t\trm -f -- \"$file.cay-own\"\n"
	  "\t\techo \"cay: $file of the machine could not be copied\" >&2\n"
	  "\tfi\n"
	  "done\n"
	  "exit 0\n" },
};

static void hash_texts(struct sha256 *h)
{
	for (size_t i = 0; i < ARRAY_LEN(etc_files); i++)
		sha256_add(h, etc_files[i].text, strlen(etc_files[i].text));
	for (size_t i = 0; i < ARRAY_LEN(usr_programs); i++)
		sha256_add(h, usr_programs[i].text, strlen(usr_programs[i].text));
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		sha256_add(h, dirs[i], strlen(dirs[i]));
}

/* The directory for the image of the machine as it is now. */
static struct err *find_dir(const char *data_dir, char **ret)
{
	autofree char *images = images_dir(data_dir);
	autoptr(sha256) h = sha256_new();
	unsigned char sum[SHA256_LEN];
	char tag[17];
	struct err *e;

	host_skeleton_hash(h);
	for (size_t i = 0; i < ARRAY_LEN(from_machine); i++) {
		autofree char *path = xasprintf("/%s", from_machine[i]);

		if (str_starts(from_machine[i], "etc/"))
			host_hash_tree(h, path, 0);
		else
			host_hash_file(h, path);
	}
	for (size_t i = 0; i < ARRAY_LEN(read_too); i++)
		host_hash_file(h, read_too[i]);
	hash_texts(h);
	e = host_usr_hash(h);
	if (e)
		return e;
	sha256_end(h, sum);
	hex_encode(sum, 8, tag);
	*ret = xasprintf("%s/" HOST_WRITABLE "-%s", images, tag);
	return NULL;
}

/* "scheme://name:password@" and its like: between "://" and the next slash, quote or blank. */
static bool names_a_user(const char *text)
{
	for (const char *at = strstr(text, "://"); at; at = strstr(at, "://")) {
		at += strlen("://");
		if (at[strcspn(at, "@/\"' \t\r\n")] == '@')
			return true;
	}
	return false;
}

static bool says(const char *text, const char *word)
{
	return strcasestr(text, word);
}

/* *ret is empty for a file that is binary, as key rings are. False: unreadable, or too long. */
static bool read_text(int fd, char **ret)
{
	autofree char *text = NULL;
	size_t len = 0;
	char path[64];
	struct err *e;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	e = file_read(AT_FDCWD, path, TEXT_MAX, &text, &len);
	if (e) {
		err_free(e);
		return false;
	}
	*ret = strlen(text) < len ? xstrdup("") : take(text);
	return true;
}

static bool is_public_key(int fd)
{
	autofree char *text = NULL;

	return read_text(fd, &text) && !says(text, "private key");
}

static bool has_no_secret(int fd)
{
	autofree char *text = NULL;

	return read_text(fd, &text) && *text && !names_a_user(text) && !says(text, "private key");
}

static bool has_no_password(int fd)
{
	autofree char *text = NULL;

	return has_no_secret(fd) && read_text(fd, &text) && !says(text, "passw");
}

/* By the beginning of a path; the first that fits. */
static const struct {
	const char *path;
	bool (*wanted)(int fd);
} checks[] = {
	{ "etc/apt/keyrings", is_public_key },
	{ "etc/apt/trusted.gpg", is_public_key },
	{ "etc/apt/", has_no_password },
	{ "etc/", has_no_secret },
	{ "", NULL },
};

static bool (*check_of(const char *path))(int fd)
{
	size_t i = 0;

	while (!str_starts(path, checks[i].path))
		i++;
	return checks[i].wanted;
}

static struct err *copy_from_machine(int root)
{
	struct err *e = NULL;

	for (size_t i = 0; i < ARRAY_LEN(from_machine) && !e; i++) {
		autofree char *from = xasprintf("/%s", from_machine[i]);

		e = host_copy(&(struct host_copy){ from, root, from_machine[i],
						   check_of(from_machine[i]) });
	}
	return e;
}

static struct err *make_dirs(int root)
{
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(root, dirs[i], 0755) < 0 || fchmodat(root, dirs[i], 0755, 0) < 0)
			return err_sys(errno, "create %s", dirs[i]);
	return NULL;
}

static struct err *make_etc(int root)
{
	static const char *const may_be_there[] = { "etc/dpkg", "etc/dpkg/dpkg.cfg.d" };
	autoclose etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err *e = etc < 0 ? err_sys(errno, "open etc") : NULL;

	for (size_t i = 0; i < ARRAY_LEN(may_be_there) && !e; i++)
		if (mkdirat(root, may_be_there[i], 0755) < 0 && errno != EEXIST)
			e = err_sys(errno, "create %s", may_be_there[i]);
	for (size_t i = 0; i < ARRAY_LEN(etc_files) && !e; i++)
		e = host_write(etc, etc_files[i].name, 0644, SPAN(etc_files[i].text));
	return e;
}

/* The fields of a line of passwd or group, of which there must be n. */
static bool cut_line(struct span line, struct span *fields, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!line.p)
			return false;
		fields[i] = span_cut(line, ':', &line);
	}
	return !line.p;
}

static bool same(struct span a, struct span b)
{
	return a.len == b.len && !memcmp(a.p, b.p, a.len);
}

/* Whether a text in which each line begins with a name and has an id as its third field, has
 * either. */
static bool is_taken(struct span text, struct span name, struct span id)
{
	while (text.p) {
		struct span line = span_cut(text, '\n', &text);
		struct span own = span_cut(line, ':', &line);

		(void)span_cut(line, ':', &line);
		if (same(own, name) || (line.p && same(span_cut(line, ':', &line), id)))
			return true;
	}
	return false;
}

static bool is_system_id(struct span id)
{
	autofree char *text = xstrndup(id.p, id.len);
	int64_t n;
	struct err *e = parse_int(text, 1, SYSTEM_ID_MAX, &n);
	bool ok = !e;

	err_free(e);
	return ok;
}

/* The users or groups of packages of the machine, without people and their membership: scripts of
 * packages, and dpkg itself, look them up. n: how many fields a line has. */
static struct err *add_ids(int root, const char *path, size_t n, struct buf *shadow)
{
	autofree char *from = xasprintf("/%s", path), *machine = NULL, *own = NULL;
	autobuf text = { 0 };
	struct span rest;
	struct err *e = file_read(root, path, TEXT_MAX, &own, NULL);

	if (!e)
		e = file_read(AT_FDCWD, from, TEXT_MAX, &machine, NULL);
	if (e)
		return e;
	buf_printf(&text, "%s", own);
	rest = SPAN(machine);
	while (rest.p) {
		struct span f[FIELDS], line = span_cut(rest, '\n', &rest);

		if (!cut_line(line, f, n) || !is_system_id(f[2]) ||
		    is_taken((struct span){ buf_head(&text), text.len }, f[0], f[2]))
			continue;
		buf_printf(&text, "%.*s:x:%.*s:", (int)f[0].len, f[0].p, (int)f[2].len, f[2].p);
		if (n == FIELDS) {
			buf_printf(&text, "%.*s::%.*s:%.*s", (int)f[3].len, f[3].p, (int)f[5].len,
				   f[5].p, (int)f[6].len, f[6].p);
			buf_printf(shadow, "%.*s:*:19000:0:99999:7:::\n", (int)f[0].len, f[0].p);
		}
		buf_add_char(&text, '\n');
	}
	if (unlinkat(root, path, 0) < 0)
		return err_sys(errno, "remove %s", path);
	return host_write(root, path, 0644, (struct span){ buf_head(&text), text.len });
}

static struct err *add_users(int root)
{
	autobuf shadow = { 0 };
	autoclose fd = -1;
	struct err *e = add_ids(root, "etc/passwd", FIELDS, &shadow);

	if (!e)
		e = add_ids(root, "etc/group", 4, NULL);
	if (e)
		return e;
	fd = openat(root, "etc/shadow", O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(errno, "open etc/shadow")
		      : fd_write_all(fd, buf_head(&shadow), shadow.len);
}

static struct err *fill_root(int root)
{
	struct err *e = host_skeleton(root);

	if (!e)
		e = make_dirs(root);
	if (!e)
		e = copy_from_machine(root);
	if (!e)
		e = make_etc(root);
	return e ? e : add_users(root);
}

static struct err *fill_usr(int usr)
{
	struct err *e = host_usr_dirs(usr);

	if (!e && mkdirat(usr, "lib/cay", 0755) < 0 && errno != EEXIST)
		e = err_sys(errno, "create lib/cay");
	for (size_t i = 0; i < ARRAY_LEN(usr_programs) && !e; i++) {
		e = host_write(usr, usr_programs[i].name, 0755, SPAN(usr_programs[i].text));
		if (!err_is(e, ERR_NOT_FOUND))
			continue;
		err_free(e); /* its directory is a link to another one */
		e = NULL;
	}
	return e;
}

static struct err *make_part(int dir, const char *name, struct err *(*fill)(int part))
{
	autoclose part = -1;

	if (mkdirat(dir, name, 0755) < 0)
		return err_sys(errno, "create %s", name);
	part = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (part < 0 || fchmod(part, 0755) < 0)
		return err_sys(errno, "open %s", name);
	return fill(part);
}

/* Whether a sandbox uses one that was made before. Which one, its record does not say. */
static bool any_used(const char *data_dir, const struct image_users *users)
{
	autoptr(map) used = NULL;
	struct err *e = users->find(data_dir, &used);
	bool any = e || map_has(used, HOST_WRITABLE) || map_has(used, IMAGE_ANY);

	err_free(e); /* the next time that one is made it is looked at again */
	return any;
}

/* Into the work directory, which is removed: none is ever half there. */
static void move_others(const char *data_dir, const char *dir, int work)
{
	autofree char *images = images_dir(data_dir);
	DIR *d = opendir(images);
	struct dirent *de;

	while (d && (de = readdir(d)))
		if (str_starts(de->d_name, HOST_WRITABLE "-") &&
		    !str_eq(de->d_name, strrchr(dir, '/') + 1))
			(void)renameat(dirfd(d), de->d_name, work, de->d_name);
	if (d)
		(void)closedir(d);
}

/* In a work directory and renamed, so that a half-built one is never used, and none is left. */
static struct err *make(const char *data_dir, const char *dir, const struct image_users *users)
{
	autofree char *work = NULL, *made = NULL;
	autoclose work_fd = -1, made_fd = -1;
	struct err *e = work_new(data_dir, &work, &work_fd);
	bool keep;

	if (e)
		return e;
	made = xasprintf("%s/made", work);
	if (mkdir(made, 0755) < 0)
		e = err_sys(errno, "create %s", made);
	made_fd = open(made, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!e)
		e = make_part(made_fd, "root", fill_root);
	if (!e)
		e = make_part(made_fd, "usr", fill_usr);
	keep = !users || any_used(data_dir, users);
	if (!e && rename(made, dir) < 0 && errno != EEXIST && errno != ENOTEMPTY)
		e = err_sys(errno, "rename %s", made);
	if (!e && !keep)
		move_others(data_dir, dir, work_fd);
	err_free(file_remove_tree(AT_FDCWD, work)); /* or the next command does it */
	return e;
}

struct err *host_writable_make(const char *data_dir, const struct image_users *users, char **ret)
{
	autofree char *dir = NULL;
	struct err *e = find_dir(data_dir, &dir);

	if (!e && !file_exists(AT_FDCWD, dir))
		e = make(data_dir, dir, users);
	if (e)
		return err_wrap(e, "make image host:writable");
	*ret = take(dir);
	return NULL;
}
