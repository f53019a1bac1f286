/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/parse.h"
#include "base/str.h"
#include "node/image/image_priv.h"

/*
 * The built-in images `host` and `pause`. `host` is a skeleton with a generated /etc, over which
 * the launcher mounts this machine's /usr. Only what programs need to run is taken from the
 * machine's own /etc: the loader's cache, the alternatives and the certificates. `pause` is an
 * empty root for containers that run no program.
 */
static const char *const dirs[] = {
	"app",       "dev",       "etc",           "home",    "mnt",       "media",   "opt",
	"proc",      "root",      "run",           "srv",     "sys",       "tmp",     "usr",
	"var",       "var/cache", "var/lib",       "var/log", "var/spool", "var/tmp", "etc/ssl",
	"usr/local", "etc/pam.d", "usr/local/bin", "run/cay",
};
static const char *const usr_links[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };
/* Root may become anybody without a password. Nobody has one: to whom root gives one may use it. */
#define PAM_UNIX                                                    \
	"auth required pam_unix.so\naccount required pam_unix.so\n" \
	"password required pam_unix.so\nsession required pam_unix.so\n"
#define PAM_ROOT     "auth sufficient pam_rootok.so\n" PAM_UNIX
#define SHADOW(name) name ":*:19000:0:99999:7:::\n"

enum {
	SHADOW_GROUP = 42,
	TREE_DEPTH = 4,
};

/* Users and groups that programs of Debian expect by name, with Debian's numbers. */
static const struct {
	const char *name, *text;
	bool secret; /* for root and the group shadow */
} etc_files[] = {
	{ "passwd", "root:x:0:0:root:/root:/bin/sh\n"
		    "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
		    "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
		    "sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
		    "man:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n"
		    "mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
		    "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
		    "_apt:x:42:65534::/nonexistent:/usr/sbin/nologin\n"
		    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
		    "agent:x:1000:1000:agent:/home:/bin/sh\n" },
	{ "group", "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\n"
		   "mail:x:8:\nman:x:12:\nwww-data:x:33:\nshadow:x:42:\nutmp:x:43:\nstaff:x:50:\n"
		   "users:x:100:\nagent:x:1000:\nnogroup:x:65534:\n" },
	{ "shadow",
	  SHADOW("root") SHADOW("daemon") SHADOW("bin") SHADOW("sys") SHADOW("man") SHADOW("mail")
		  SHADOW("www-data") SHADOW("_apt") SHADOW("nobody") SHADOW("agent"),
	  .secret = true },
	{ "login.defs", "UID_MIN 1000\nUID_MAX 60000\nSYS_UID_MIN 101\nSYS_UID_MAX 999\n"
			"GID_MIN 1000\nGID_MAX 60000\nSYS_GID_MIN 101\nSYS_GID_MAX 999\n"
			"UMASK 022\nUSERGROUPS_ENAB yes\n" },
	{ "pam.d/other", PAM_UNIX },
	{ "pam.d/su", PAM_ROOT },
	{ "pam.d/su-l", PAM_ROOT },
	{ "pam.d/runuser", PAM_ROOT },
	{ "pam.d/runuser-l", PAM_ROOT },
	{ "pam.d/passwd", PAM_UNIX },
	{ "pam.d/chpasswd", PAM_ROOT },
	{ "nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
			   "services: files\n" },
	{ "shells", "/bin/sh\n/bin/bash\n" },
	{ "host.conf", "multi on\n" },
	/* The launcher mounts its own over these; without them, every root would be given some. */
	{ "hostname", "" },
	{ "hosts", "" },
	{ "resolv.conf", "" },
};
/* Files and directories of the machine's /etc that are copied, save what not everybody may read. */
static const char *const from_etc[] = { "alternatives",   "ld.so.cache", "ld.so.conf",
					"ld.so.conf.d",   "ssl/certs",   "services",
					"protocols",      "mime.types",  "os-release",
					"debian_version", "localtime",   "timezone" };

/* In /usr/local/bin, before the machine's programs of the same name: instead of failing on a
 * read-only file system, they say what to do. What changes nothing is left to those programs. */
#define INSTALLS_NOTHING(program)                                                                                                       \
	"#!/bin/sh\n"                                                                                                                   \
	"for word; do\n"                                                                                                                \
	"\tcase $word in\n"                                                                                                             \
	"\tinstall | reinstall | upgrade | full-upgrade | dist-upgrade | remove | purge | autoremove | build-dep)\n"                    \
	"\t\tcat >&2 <<'END'\n"                                                                                                         \
	"E: This sandbox runs the image \"host\": its /usr is the machine's own and read-only, so that no package can be installed.\n"  \
	"   Use the image \"host:writable\", in which this command works on the same programs, or one of your own: `cay image build`\n" \
	"   makes one of Debian packages, and `cay image import` brings one in.\n"                                                      \
	"   Here, `dpkg -x FILE.deb /opt` unpacks a package, and `python3 -m venv DIR` makes a place for Python's.\n"                   \
	"END\n"                                                                                                                         \
	"\t\texit 100\n"                                                                                                                \
	"\tesac\n"                                                                                                                      \
	"done\n"                                                                                                                        \
	"exec /usr/bin/" program " \"$@\"\n"

static const struct {
	const char *name, *text;
} local_programs[] = {
	{ "apt", INSTALLS_NOTHING("apt") },
	{ "apt-get", INSTALLS_NOTHING("apt-get") },
};

static bool machine_has(const char *program)
{
	autofree char *path = xasprintf("/usr/bin/%s", program);

	return file_exists(AT_FDCWD, path);
}

void host_hash_file(struct sha256 *h, const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return;
	sha256_add(h, path, strlen(path));
	sha256_add(h, &st.st_mtim, sizeof(st.st_mtim));
	sha256_add(h, &st.st_ctim, sizeof(st.st_ctim)); /* of its mode and owner */
	sha256_add(h, &st.st_size, sizeof(st.st_size));
}

void host_hash_tree(struct sha256 *h, const char *path, unsigned depth)
{
	struct dirent **list = NULL;
	int n = depth < TREE_DEPTH ? scandir(path, &list, NULL, alphasort) : 0;

	host_hash_file(h, path);
	for (int i = 0; i < n; i++) {
		autofree char *below = xasprintf("%s/%s", path, list[i]->d_name);

		if (list[i]->d_type == DT_DIR && list[i]->d_name[0] != '.')
			host_hash_tree(h, below, depth + 1);
		else if (list[i]->d_type != DT_DIR)
			host_hash_file(h, below);
		free(list[i]);
	}
	free(list);
}

/* Changes when one of the files that are copied changes. */
void host_skeleton_hash(struct sha256 *h)
{
	for (size_t i = 0; i < ARRAY_LEN(from_etc); i++) {
		autofree char *path = xasprintf("/etc/%s", from_etc[i]);

		host_hash_file(h, path);
	}
	for (size_t i = 0; i < ARRAY_LEN(etc_files); i++) {
		sha256_add(h, etc_files[i].name, strlen(etc_files[i].name));
		sha256_add(h, etc_files[i].text, strlen(etc_files[i].text));
	}
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		sha256_add(h, dirs[i], strlen(dirs[i]));
}

static void skeleton_tag(char ret[17])
{
	autoptr(sha256) h = sha256_new();
	unsigned char sum[SHA256_LEN];

	host_skeleton_hash(h);
	for (size_t i = 0; i < ARRAY_LEN(local_programs); i++)
		if (machine_has(local_programs[i].name))
			sha256_add(h, local_programs[i].text, strlen(local_programs[i].text));
	sha256_end(h, sum);
	hex_encode(sum, 8, ret);
}

static struct err *make_dirs(int root)
{
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		mode_t mode = str_ends(dirs[i], "tmp")  ? 01777
			      : str_eq(dirs[i], "root") ? 0700
							: 0755;

		if (mkdirat(root, dirs[i], mode) < 0 || fchmodat(root, dirs[i], mode, 0) < 0)
			return err_sys(errno, "create %s", dirs[i]);
	}
	if (fchownat(root, "home", 1000, 1000, 0) < 0)
		return err_sys(errno, "change the owner of home");
	return NULL;
}

static struct err *make_links(int root)
{
	for (size_t i = 0; i < ARRAY_LEN(usr_links); i++) {
		autofree char *to = xasprintf("usr/%s", usr_links[i]);
		autofree char *host = xasprintf("/usr/%s", usr_links[i]);

		if (!access(host, F_OK) && symlinkat(to, root, usr_links[i]) < 0)
			return err_sys(errno, "link %s", usr_links[i]);
	}
	if (symlinkat("/run", root, "var/run") < 0)
		return err_sys(errno, "link var/run");
	return NULL;
}

struct err *host_write(int dir, const char *name, mode_t mode, struct span text)
{
	autoclose fd =
		openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

	if (fd < 0 || fchmod(fd, mode) < 0) /* regardless of the umask */
		return err_sys(errno, "create %s", name);
	return fd_write_all(fd, text.p, text.len);
}

static struct err *copy_file(const struct host_copy *c)
{
	autoclose fd = open(c->from, O_RDONLY | O_CLOEXEC);
	autofree char *text = NULL;
	size_t len;
	struct err *e;

	if (fd < 0)
		return err_sys(errno, "open %s", c->from);
	if (c->wanted && !c->wanted(fd))
		return NULL;
	e = file_read(AT_FDCWD, c->from, 64 << 20, &text, &len);
	return e ? e : host_write(c->dir, c->name, 0644, (struct span){ text, len });
}

struct err *host_copy(const struct host_copy *c)
{
	const struct layer_job job = { .public_only = true, .wanted = c->wanted };
	autoclose from = -1, to = -1;
	struct layer_done done;
	struct stat st;

	if (stat(c->from, &st) < 0 || !(st.st_mode & S_IROTH))
		return NULL; /* not every machine has all of them, for everybody */
	if (!S_ISDIR(st.st_mode))
		return copy_file(c);
	from = open(c->from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (from < 0 || mkdirat(c->dir, c->name, 0755) < 0 ||
	    fchmodat(c->dir, c->name, 0755, 0) < 0)
		return err_sys(errno, "copy %s", c->from);
	to = openat(c->dir, c->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return err_wrap(layer_copy_dir(from, to, &job, &done), "copy %s", c->from);
}

static struct err *make_etc(int root)
{
	autoclose etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err *e = etc < 0 ? err_sys(errno, "open etc") : NULL;

	for (size_t i = 0; i < ARRAY_LEN(etc_files) && !e; i++) {
		const char *name = etc_files[i].name;
		bool secret = etc_files[i].secret;

		e = host_write(etc, name, secret ? 0640 : 0644, SPAN(etc_files[i].text));
		if (!e && secret && fchownat(etc, name, 0, SHADOW_GROUP, AT_SYMLINK_NOFOLLOW) < 0)
			e = err_sys(errno, "change the group of %s", name);
	}
	for (size_t i = 0; i < ARRAY_LEN(from_etc) && !e; i++) {
		autofree char *path = xasprintf("/etc/%s", from_etc[i]);

		e = host_copy(&(struct host_copy){ path, etc, from_etc[i] });
	}
	return e;
}

static struct err *make_local(int root)
{
	autoclose bin = openat(root, "usr/local/bin", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err *e = bin < 0 ? err_sys(errno, "open usr/local/bin") : NULL;

	for (size_t i = 0; i < ARRAY_LEN(local_programs) && !e; i++) {
		if (!machine_has(local_programs[i].name))
			continue;
		e = host_write(bin, local_programs[i].name, 0755, SPAN(local_programs[i].text));
	}
	return e;
}

/* Built next to its place and renamed, so that a half-built one is never used. */
static struct err *make_root(const char *dir, struct err *(*fill)(int root))
{
	autofree char *beside = xasprintf("%s.new", dir);
	autoclose root = -1;
	struct err *e;

	if (file_exists(AT_FDCWD, dir))
		return NULL;
	e = file_remove_tree(AT_FDCWD, beside);
	if (e)
		return e;
	e = file_mkdirs(beside, 0755);
	if (e)
		return e;
	root = open(beside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || fchmod(root, 0755) < 0)
		return err_sys(errno, "open %s", beside);
	e = fill(root);
	if (!e && rename(beside, dir) < 0)
		e = err_sys(errno, "rename %s", beside);
	return err_wrap(e, "create %s", dir);
}

struct err *host_skeleton(int root)
{
	struct err *e = make_dirs(root);

	if (!e)
		e = make_links(root);
	return e ? e : make_etc(root);
}

static struct err *fill_host(int root)
{
	struct err *e = host_skeleton(root);

	if (!e)
		e = make_local(root);
	return e;
}

static struct err *fill_pause(int root)
{
	static const char *const few[] = { "dev", "etc", "proc", "sys", "tmp" };

	for (size_t i = 0; i < ARRAY_LEN(few); i++)
		if (mkdirat(root, few[i], 0755) < 0 || fchmodat(root, few[i], 0755, 0) < 0)
			return err_sys(errno, "create %s", few[i]);
	return NULL;
}

struct err *image_make_host(const char *data_dir, char **ret_dir)
{
	autofree char *images = images_dir(data_dir), *dir = NULL;
	char tag[17];
	struct err *e;

	skeleton_tag(tag);
	dir = xasprintf("%s/host-%s", images, tag);
	e = make_root(dir, fill_host);
	if (!e)
		*ret_dir = take(dir);
	return e;
}

struct err *image_make_pause(const char *data_dir, char **ret_dir)
{
	autofree char *images = images_dir(data_dir), *dir = xasprintf("%s/pause", images);
	struct err *e = make_root(dir, fill_pause);

	if (!e)
		*ret_dir = take(dir);
	return e;
}
