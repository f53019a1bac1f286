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
 * The built-in images. `host` is a skeleton with a generated /etc, over which the launcher mounts
 * this machine's /usr. Only what programs need to run is taken from the machine's own /etc: the
 * loader's cache, the alternatives and the certificates. `pause` is an empty root for containers
 * that run no program.
 */
static const char *const dirs[] = {
	"app",  "dev",       "etc",     "home",    "mnt",     "media",   "opt",
	"proc", "root",      "run",     "srv",     "sys",     "tmp",     "usr",
	"var",  "var/cache", "var/lib", "var/log", "var/tmp", "etc/ssl", "usr/local",
};
static const char *const usr_links[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };
static const struct {
	const char *name, *text;
} etc_files[] = {
	{ "passwd", "root:x:0:0:root:/root:/bin/sh\n"
		    "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
		    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
		    "agent:x:1000:1000:agent:/home:/bin/sh\n" },
	{ "group",
	  "root:x:0:\ndaemon:x:1:\ntty:x:5:\nstaff:x:50:\nagent:x:1000:\nnogroup:x:65534:\n" },
	{ "nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\nservices: files\n" },
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

static void hash_stat(struct sha256 *h, const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return;
	sha256_add(h, path, strlen(path));
	sha256_add(h, &st.st_mtim, sizeof(st.st_mtim));
	sha256_add(h, &st.st_size, sizeof(st.st_size));
}

/* Changes when one of the files that are copied changes. */
static void skeleton_tag(char ret[17])
{
	autoptr(sha256) h = sha256_new();
	unsigned char sum[SHA256_LEN];

	for (size_t i = 0; i < ARRAY_LEN(from_etc); i++) {
		autofree char *path = xasprintf("/etc/%s", from_etc[i]);

		hash_stat(h, path);
	}
	for (size_t i = 0; i < ARRAY_LEN(etc_files); i++) {
		sha256_add(h, etc_files[i].name, strlen(etc_files[i].name));
		sha256_add(h, etc_files[i].text, strlen(etc_files[i].text));
	}
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		sha256_add(h, dirs[i], strlen(dirs[i]));
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

static struct err *write_new(int dir, const char *name, const void *p, size_t len)
{
	autoclose fd =
		openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd < 0 || fchmod(fd, 0644) < 0) /* regardless of the umask */
		return err_sys(errno, "create %s", name);
	return fd_write_all(fd, p, len);
}

static struct err *copy_one(const char *path, int etc, const char *name)
{
	autoclose from = -1, to = -1;
	const struct layer_job job = { .public_only = true };
	struct layer_done done;
	autofree char *text = NULL;
	struct stat st;
	size_t len;
	struct err *e;

	if (stat(path, &st) < 0 || !(st.st_mode & S_IROTH))
		return NULL; /* not every machine has all of them, for everybody */
	if (S_ISDIR(st.st_mode)) {
		from = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (from < 0 || mkdirat(etc, name, 0755) < 0 || fchmodat(etc, name, 0755, 0) < 0)
			return err_sys(errno, "copy %s", path);
		to = openat(etc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return layer_copy_dir(from, to, &job, &done);
	}
	e = file_read(AT_FDCWD, path, 64 << 20, &text, &len);
	return e ? e : write_new(etc, name, text, len);
}

static struct err *make_etc(int root)
{
	autoclose etc = openat(root, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct err *e = etc < 0 ? err_sys(errno, "open etc") : NULL;

	for (size_t i = 0; i < ARRAY_LEN(etc_files) && !e; i++)
		e = write_new(etc, etc_files[i].name, etc_files[i].text, strlen(etc_files[i].text));
	for (size_t i = 0; i < ARRAY_LEN(from_etc) && !e; i++) {
		autofree char *path = xasprintf("/etc/%s", from_etc[i]);

		e = copy_one(path, etc, from_etc[i]);
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

static struct err *fill_host(int root)
{
	struct err *e = make_dirs(root);

	if (!e)
		e = make_links(root);
	return e ? e : make_etc(root);
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
