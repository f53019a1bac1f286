/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/str.h"
#include "loop/loop.h"
#include "node/host/numbers.h"
#include "node/image/image_priv.h"
#include "test.h"

TEST(names_are_completed_as_registries_do)
{
	static const struct {
		const char *name, *canonical;
	} rows[] = {
		{ "busybox", "docker.io/library/busybox:latest" },
		{ "busybox:1.36", "docker.io/library/busybox:1.36" },
		{ "docker.io/library/busybox:1.36", "docker.io/library/busybox:1.36" },
		{ "team/tool", "docker.io/team/tool:latest" },
		{ "registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10" },
		{ "localhost/x", "localhost/x:latest" },
		{ "localhost:5000/x", "localhost:5000/x:latest" },
		{ "localhost:5000/a/b:c", "localhost:5000/a/b:c" },
		{ "x@sha256:abc", "docker.io/library/x:latest" },
		{ "", NULL },
		{ "/x", NULL },
		{ "a b", NULL },
		{ ":x", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *got = image_canonical(rows[i].name, NULL);

		eq_str(got, rows[i].canonical);
	}
}

static char *make_dir(void)
{
	char path[] = "/tmp/cay-image-XXXXXX";

	is_true(mkdtemp(path));
	return xstrdup(path);
}

static struct err *nobody(const char *data_dir unused, struct map **ret)
{
	*ret = map_new(NULL);
	return NULL;
}
static const struct image_users no_users = { nobody };

TEST(a_name_leads_to_its_image_and_back_to_none)
{
	autofree char *dir = make_dir(), *names = NULL;
	autoptr(images) im = NULL;
	autoptr(image) img = NULL;
	struct image_info *list;
	size_t n;

	if (geteuid() != 0)
		skip_because("needs root: the skeleton of the host image has owners");
	works(images_open(dir, &im));
	fails(images_find(im, "registry.example.com/x:1", &img), ERR_NOT_FOUND);
	works(image_tag(dir, "host", "registry.example.com/x:1"));
	works(images_reload(im));
	works(images_find(im, "registry.example.com/x:1", &img));
	is_true(img->host_usr);
	works(image_list(dir, &list, &n));
	eq_int(n, 4);
	image_list_free(list, n);
	fails(image_tag(dir, "nothing", "y"), ERR_NOT_FOUND);
	fails(image_tag(dir, "pause", "host"), ERR_INVALID);
	works(image_remove(dir, "registry.example.com/x:1", &no_users));
	fails(image_remove(dir, "registry.example.com/x:1", &no_users), ERR_NOT_FOUND);
	names = xasprintf("%s/images/names.json", dir);
	works(file_write_atomic(AT_FDCWD, names, "[1]", 3, 0600));
	fails(image_tag(dir, "host", "y"), ERR_MALFORMED);
	works(file_remove_tree(AT_FDCWD, dir));
}

TEST(the_writable_host_has_the_directories_of_usr_and_none_of_its_files)
{
	autofree char *dir = make_dir(), *bin = NULL, *program = NULL;
	autoptr(images) im = NULL;
	autoptr(image) img = NULL;
	struct stat here, there;

	if (geteuid() != 0)
		skip_because("needs root: the skeleton of the host image has owners");
	works(images_open(dir, &im));
	works(images_find(im, "host:writable", &img));
	is_true(img->host_usr);
	bin = xasprintf("%s/share", img->usr);
	eq_int(stat(bin, &here), 0);
	eq_int(stat("/usr/share", &there), 0);
	eq_int(here.st_mode, there.st_mode);
	eq_int(here.st_uid, 0);
	program = xasprintf("%s/bin/env", img->usr);
	is_true(file_exists(AT_FDCWD, "/usr/bin/env"));
	is_true(!file_exists(AT_FDCWD, program));
	works(file_remove_tree(AT_FDCWD, dir));
}

static void count(void *arg)
{
	++*(unsigned *)arg;
}

TEST(an_image_of_the_machine_is_made_once_by_a_job_and_a_failure_says_why)
{
	autofree char *dir = make_dir(), *images = images_dir(dir);
	autoptr(loop) l = NULL;
	autoptr(image) img = NULL;
	struct images *im;
	unsigned changed = 0;
	struct images_maker maker = { .users = &no_users, .changed = count, .arg = &changed };

	if (geteuid() != 0)
		skip_because("needs root: the skeleton of the host image has owners");
	works(loop_new(&l));
	maker.loop = l;
	works(images_open(dir, &im));
	images_make_on(im, &maker);
	works(file_remove_tree(AT_FDCWD, images));
	fails(images_find(im, "host:writable", &img), ERR_UNAVAILABLE);
	while (!changed)
		(void)loop_turn(l, 10);
	fails(images_find(im, "host:writable", &img), ERR_SYS);
	images_free(im);
	works(images_open(dir, &im));
	images_make_on(im, &maker);
	fails(images_find(im, "host:writable", &img), ERR_UNAVAILABLE);
	fails(images_find(im, "host:writable", &img), ERR_UNAVAILABLE);
	while (changed < 2)
		(void)loop_turn(l, 10);
	works(images_find(im, "host:writable", &img));
	images_free(im);
	eq_int(changed, 2);
	works(file_remove_tree(AT_FDCWD, dir));
}

/* A tar header of 512 bytes, and its data padded. */
static void tar_add(struct buf *b, const char *name, char type, const char *link, const char *data)
{
	char h[512] = { 0 };
	size_t len = data ? strlen(data) : 0;
	unsigned sum = 0;

	(void)snprintf(h, 100, "%s", name);
	(void)snprintf(h + 100, 8, "%07o", 0755);
	(void)snprintf(h + 108, 8, "%07o", 0);
	(void)snprintf(h + 116, 8, "%07o", 0);
	(void)snprintf(h + 124, 12, "%011o", (unsigned)len);
	(void)snprintf(h + 136, 12, "%011o", 0);
	memset(h + 148, ' ', 8);
	h[156] = type;
	(void)snprintf(h + 157, 100, "%s", link ? link : "");
	memcpy(h + 257, "ustar\00000", 8);
	for (size_t i = 0; i < sizeof(h); i++)
		sum += (unsigned char)h[i];
	(void)snprintf(h + 148, 8, "%06o", sum);
	buf_add(b, h, sizeof(h));
	buf_add(b, data ? data : "", len);
	while (b->len % 512)
		buf_add_char(b, '\0');
}

static struct err *unpack(struct buf *tar, const char *dir, struct layer_done *done)
{
	static const char end[1024];
	autoclose root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct layer_job job = { .max_bytes = 1 << 20, .max_entries = 10 };

	buf_add(tar, end, sizeof(end));
	return layer_unpack(&(struct tar_from){ .bytes = buf_head(tar), .len = tar->len }, root,
			    &job, done);
}

TEST(a_tar_becomes_a_tree)
{
	autofree char *dir = make_dir(), *text = NULL;
	autobuf tar = { 0 }, path = { 0 };
	struct layer_done done;
	struct stat a, b;

	if (geteuid() != 0)
		skip_because("needs root: entries have owners");
	tar_add(&tar, "./", '5', NULL, NULL);
	tar_add(&tar, "./etc/", '5', NULL, NULL);
	tar_add(&tar, "./etc/motd", '0', NULL, "hello\n");
	tar_add(&tar, "deep/er/file", '0', NULL, "x");
	tar_add(&tar, "link", '2', "/etc/motd", NULL);
	tar_add(&tar, "hard", '1', "./etc/motd", NULL);
	works(unpack(&tar, dir, &done));
	eq_int(done.entries, 5);
	is_true(str_starts(done.digest, "sha256:"));
	buf_printf(&path, "%s/hard", dir);
	works(file_read(AT_FDCWD, buf_str(&path), 100, &text, NULL));
	eq_str(text, "hello\n");
	eq_int(stat(buf_str(&path), &a), 0);
	buf_clear(&path);
	buf_printf(&path, "%s/etc/motd", dir);
	eq_int(stat(buf_str(&path), &b), 0);
	eq_int(a.st_ino, b.st_ino);
	works(file_remove_tree(AT_FDCWD, dir));
}

TEST(no_entry_leaves_the_root)
{
	static const struct {
		const char *first;
		char first_type;
		const char *first_link, *second;
		char second_type;
		const char *second_link;
	} rows[] = {
		{ "../out", '0', NULL, NULL, 0, NULL },
		{ "a/../../out", '0', NULL, NULL, 0, NULL },
		{ "out", '1', "../../etc/passwd", NULL, 0, NULL },
		{ "dev", '3', NULL, NULL, 0, NULL },
		{ "blk", '4', NULL, NULL, 0, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autofree char *dir = make_dir();
		autobuf tar = { 0 };
		struct layer_done done;
		struct err *e;

		tar_add(&tar, rows[i].first, rows[i].first_type, rows[i].first_link,
			rows[i].first_type == '0' ? "x" : NULL);
		e = unpack(&tar, dir, &done);
		is_true(e);
		err_free(e);
		works(file_remove_tree(AT_FDCWD, dir));
	}
}

/* Seen from inside the root such a link leads to a place of the root, if there is one. */
TEST(a_planted_link_stays_inside)
{
	autofree char *dir = make_dir(), *outside = make_dir();
	autofree char *path = xasprintf("%s/f", outside);
	autobuf tar = { 0 }, whole = { 0 };
	struct layer_done done;

	if (geteuid() != 0)
		skip_because("needs root: entries have owners");
	tar_add(&tar, "way", '2', outside, NULL);
	tar_add(&tar, "way/f", '0', NULL, "x");
	fails(unpack(&tar, dir, &done), ERR_EXISTS);
	is_false(file_exists(AT_FDCWD, path));
	tar_add(&whole, "etc/there", '0', NULL, "x");
	tar_add(&whole, "alias", '2', "/etc", NULL);
	tar_add(&whole, "alias/through", '0', NULL, "x");
	works(unpack(&whole, dir, &done));
	free(path);
	path = xasprintf("%s/etc/through", dir);
	is_true(file_exists(AT_FDCWD, path));
	works(file_remove_tree(AT_FDCWD, dir));
	works(file_remove_tree(AT_FDCWD, outside));
}

TEST(an_owner_beyond_the_range_of_a_sandbox_is_nobody)
{
	eq_int(layer_owner(0), 0);
	eq_int(layer_owner(ID_RANGE - 1), ID_RANGE - 1);
	eq_int(layer_owner(ID_RANGE), ID_NOBODY);
	eq_int(layer_owner(-1), ID_NOBODY);
}

TEST(limits_of_a_layer_hold)
{
	autofree char *dir = make_dir();
	autobuf tar = { 0 };
	struct layer_done done;
	char name[16];

	if (geteuid() != 0)
		skip_because("needs root: entries have owners");
	for (int i = 0; i < 11; i++) {
		(void)snprintf(name, sizeof(name), "f%d", i);
		tar_add(&tar, name, '0', NULL, "x");
	}
	fails(unpack(&tar, dir, &done), ERR_EXHAUSTED);
	works(file_remove_tree(AT_FDCWD, dir));
}

TEST(a_copy_for_everybody_leaves_out_what_is_private)
{
	static const struct {
		const char *name;
		mode_t mode;
	} rows[] = { { "public", 0644 }, { "private", 0640 }, { "secret", 0600 } };
	autofree char *dir = make_dir(), *copy = make_dir();
	autoclose from = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclose to = open(copy, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct layer_job job = { .public_only = true };
	struct layer_done done;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoclose fd = openat(from, rows[i].name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

		eq_int(fchmod(fd, rows[i].mode), 0);
	}
	works(layer_copy_dir(from, to, &job, &done));
	eq_int(done.entries, 1);
	is_true(file_exists(to, "public"));
	works(file_remove_tree(AT_FDCWD, dir));
	works(file_remove_tree(AT_FDCWD, copy));
}
