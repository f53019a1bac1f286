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
 * What something from outside is: by its content, never by its name. Whatever is recognised and not
 * supported is refused by its own name, because a person who gives a disk image to `import` does
 * not want its first bytes as a root file system.
 */
enum {
	HEAD_LEN = 72 * 1024,
	TAR_BLOCK = 512,
	TAR_SUM = 148,
	TAR_SUM_LEN = 8,
};

struct magic {
	size_t off;
	const char *bytes;
	size_t len;
	const char *what;
};
#define MAGIC(off, bytes, what) { off, bytes, sizeof(bytes) - 1, what }

static const struct magic magics[] = {
	MAGIC(0, "PK\003\004", "a zip archive"),
	MAGIC(0, "PK\005\006", "an empty zip archive"),
	MAGIC(0, "hsqs", "a squashfs file system"),
	MAGIC(0, "sqsh", "a squashfs file system"),
	MAGIC(0, "QFI\373", "a qcow2 disk image"),
	MAGIC(32769, "CD001", "an ISO 9660 file system"),
	MAGIC(0, "!<arch>\ndebian-binary", "a Debian package"),
	MAGIC(0, "!<arch>\n", "an ar archive"),
	MAGIC(0, "070701", "a cpio archive"),
	MAGIC(0, "070702", "a cpio archive"),
	MAGIC(0, "070707", "a cpio archive"),
	MAGIC(0, "\307\161", "a cpio archive"),
	MAGIC(0, "\161\307", "a cpio archive"),
	MAGIC(0, "\355\253\356\333", "an RPM package"),
	MAGIC(0, "7z\274\257\047\034", "a 7-Zip archive"),
	MAGIC(0, "Rar!\032\007", "a RAR archive"),
	MAGIC(0, "xar!", "a xar archive"),
	MAGIC(0, "MSWIM\0\0\0", "a Windows image"),
	MAGIC(0, "KDMV", "a VMDK disk image"),
	MAGIC(0, "# Disk DescriptorFile", "a VMDK disk image"),
	MAGIC(0, "vhdxfile", "a VHDX disk image"),
	MAGIC(0, "conectix", "a VHD disk image"),
	MAGIC(64, "\177\020\332\276", "a VirtualBox disk image"),
	MAGIC(0, "XFSB", "an XFS file system"),
	MAGIC(1080, "\123\357", "an ext2, ext3 or ext4 file system"),
	MAGIC(1024, "\342\341\365\340", "an EROFS file system"),
	MAGIC(65600, "_BHRfS_M", "a btrfs file system"),
	MAGIC(512, "EFI PART", "a disk image with partitions"),
	MAGIC(0, "SIF_MAGIC", "a Singularity image"),
	MAGIC(32, "SIF_MAGIC", "a Singularity image"),
	MAGIC(0, "\004\042\115\030", "an lz4 stream; gzip, zstd, xz and bzip2 are understood"),
	MAGIC(0, "LZIP", "an lzip stream; gzip, zstd, xz and bzip2 are understood"),
	MAGIC(0, "\211LZO\0\r\n\032\n", "an lzop stream; gzip, zstd, xz and bzip2 are understood"),
	MAGIC(0, "\135\0\0", "an lzma stream; gzip, zstd, xz and bzip2 are understood"),
	MAGIC(0, "\037\235", "a compress stream; gzip, zstd, xz and bzip2 are understood"),
	MAGIC(0, "age-encryption.org/", "an encrypted file"),
	MAGIC(0, "-----BEGIN PGP MESSAGE", "an encrypted file"),
	MAGIC(0, "Salted__", "an encrypted file"),
	MAGIC(0, "LUKS\272\276", "an encrypted disk image"),
	MAGIC(0, "\177ELF", "a program, not an archive"),
	MAGIC(0, "#!", "a script, not an archive"),
	MAGIC(0, "%PDF", "a PDF document"),
	MAGIC(0, "SQLite format 3", "an SQLite database"),
};

/* The sum over a header with blanks in the place of the sum, as it has been since the first tar. */
static bool tar_header(const char *head, size_t len)
{
	uint64_t sum = 0, want = 0;
	const char *p = head + TAR_SUM, *end = p + TAR_SUM_LEN;

	if (len < TAR_BLOCK)
		return false;
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += i >= TAR_SUM && i < TAR_SUM + TAR_SUM_LEN ? ' ' : (unsigned char)head[i];
	while (p < end && *p == ' ')
		p++;
	for (; p < end && *p >= '0' && *p <= '7'; p++)
		want = want * 8 + (uint64_t)(*p - '0');
	return sum == want;
}

/* An archive without entries has only blocks of zeros. */
static bool all_zero(const char *head, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (head[i])
			return false;
	return len >= TAR_BLOCK;
}

static struct err *unknown(const char *head, size_t len)
{
	for (size_t i = 0; i < ARRAY_LEN(magics); i++) {
		const struct magic *m = &magics[i];

		if (len >= m->off + m->len && !memcmp(head + m->off, m->bytes, m->len))
			return err_new(ERR_UNSUPPORTED, "it is %s", m->what);
	}
	if (len >= TAR_BLOCK && !memcmp(head + 510, "\125\252", 2))
		return err_new(ERR_UNSUPPORTED, "it is a disk image with a boot sector");
	return err_new(ERR_UNSUPPORTED,
		       "it is not a tar archive: an image is a docker-archive, an oci-archive or a "
		       "root file system as tar");
}

struct err *kind_check_file(const struct tar_from *from)
{
	autofree char *head = xmalloc(HEAD_LEN);
	size_t len = 0;
	struct err *e = tar_head(from, head, HEAD_LEN, &len);

	if (e)
		return e;
	if (!len)
		return err_new(ERR_UNSUPPORTED, "the file is empty");
	if (tar_header(head, len))
		return NULL;
	if (all_zero(head, len))
		return err_new(ERR_UNSUPPORTED, "the archive has no entries");
	return unknown(head, len);
}

/* What stands at the top of a tree. */
struct top {
	bool oci_layout, index, manifest, repositories;
	bool v1;          /* a directory with layer.tar and json */
	bool root;        /* a directory that every root file system has */
	unsigned n;       /* names in all */
	char nested[256]; /* a directory with an oci-layout in it */
};

static void look_below(int dir, const char *name, struct top *t)
{
	static const char *const root_dirs[] = { "bin", "etc", "lib", "usr", "sbin", "var", NULL };
	autoclose sub = -1;

	if (str_in(name, root_dirs))
		t->root = true;
	sub = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (sub < 0)
		return;
	t->v1 |= file_exists(sub, "layer.tar") && file_exists(sub, "json");
	if (file_exists(sub, "oci-layout") && file_exists(sub, "index.json"))
		(void)snprintf(t->nested, sizeof(t->nested), "%s", name);
}

static void look_at(int dir, const char *name, struct top *t)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	t->n++;
	if (!S_ISREG(st.st_mode)) {
		look_below(dir, name, t);
		return;
	}
	t->oci_layout |= str_eq(name, "oci-layout");
	t->index |= str_eq(name, "index.json");
	t->manifest |= str_eq(name, "manifest.json");
	t->repositories |= str_eq(name, "repositories");
}

static struct err *look(int dir, struct top *ret)
{
	struct dirent *de;
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;

	if (!d)
		return err_sys(errno, "list the directory");
	while ((de = readdir(d)))
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, ".."))
			look_at(dir, de->d_name, ret);
	(void)closedir(d);
	return NULL;
}

struct err *kind_of_tree(int dir, enum tree_kind *ret)
{
	struct top t = { 0 };
	struct err *e = look(dir, &t);
	bool image = t.oci_layout || t.manifest || (t.repositories && t.v1);

	if (e)
		return e;
	if (!t.n)
		return err_new(ERR_INVALID, "there is nothing in it");
	if (image && t.root)
		return err_new(ERR_UNSUPPORTED,
			       "it has both %s, as an image, and /usr or /etc, as a root file "
			       "system; leave out one of them",
			       t.oci_layout ? "oci-layout"
			       : t.manifest ? "manifest.json"
					    : "repositories");
	if (t.oci_layout && !t.index)
		return err_new(ERR_INVALID, "OCI layout without index.json");
	if (image && !t.oci_layout && !t.manifest)
		return err_new(
			ERR_UNSUPPORTED,
			"it is an archive of Docker before 1.10, without manifest.json; save "
			"it again with a newer docker");
	if (!image && t.n == 1 && t.nested[0])
		return err_new(ERR_UNSUPPORTED,
			       "the OCI layout is in its directory %s; pack what is in there",
			       t.nested);
	*ret = t.oci_layout ? TREE_OCI : t.manifest ? TREE_DOCKER : TREE_ROOT;
	return NULL;
}
