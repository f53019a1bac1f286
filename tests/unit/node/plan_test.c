/* SPDX-License-Identifier: Apache-2.0 */
#include "node/launch/plan.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/macros.h"
#include "base/mem.h"
#include "test.h"

static const char *lower[] = { "/images/a", "/images/b", NULL };
static const char *runtime_args[] = { "--systemd-cgroup", "-x", NULL };
static struct plan_mount mounts[] = {
	{ .to = "/data", .from = "/v/1", .sub = "a/b", .make = true, .group = 1000 },
	{ .to = "/etc/key", .from = "/v/2", .sub = "key", .file = true, .readonly = true },
	{ .to = "/tmp", .memory = true, .size = 4096 },
	{ .to = "/run/cay", .from = "/v/3", .readonly = true, .noexec = true, .spare = true },
};
static const struct plan whole = {
	.image = { lower, true },
	.readonly = true,
	.join = true,
	.hostname = "web",
	.etc_hostname = "web\n",
	.etc_hosts = "127.0.0.1\tlocalhost\n",
	.etc_resolv_conf = "nameserver 10.0.0.1\n",
	.limits = { 1LL << 40, 500, 250, 1024 },
	.oci = { "/usr/bin/crun", "crun", runtime_args },
	.mounts = mounts,
	.n_mounts = ARRAY_LEN(mounts),
};

TEST(a_container_may_have_only_capabilities_of_the_table)
{
	eq_int(plan_capability("CHOWN"), CAP_CHOWN);
	eq_int(plan_capability("CAP_SYS_CHROOT"), CAP_SYS_CHROOT);
	eq_int(plan_capability("SYS_ADMIN"), -1);
	eq_int(plan_capability("CAP_NET_RAW"), -1);
	eq_int(plan_capability("CAP_"), -1);
	eq_int(plan_capability("CAP_MKNOD"), -1);
	/* CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE SYS_CHROOT
	 * AUDIT_WRITE SETFCAP */
	eq_int(plan_capabilities(), 0xa00405fb);
}

static void eq_mount(const struct plan_mount *a, const struct plan_mount *b)
{
	eq_str(a->to, b->to);
	eq_str(a->from, b->from);
	eq_str(a->sub, b->sub);
	eq_int(a->file, b->file);
	eq_int(a->make, b->make);
	eq_int(a->readonly, b->readonly);
	eq_int(a->noexec, b->noexec);
	eq_int(a->spare, b->spare);
	eq_int(a->memory, b->memory);
	eq_int(a->size, b->size);
	eq_int(a->group, b->group);
}

TEST(a_plan_reads_back_as_it_was_written)
{
	autoptr(arena) a = arena_new();
	autoclose fd = -1;
	struct plan p;

	works(plan_to_memfd(&whole, &fd));
	works(plan_from_fd(fd, a, &p));
	is_true(plan_image_equal(&p.image, &whole.image));
	is_true(p.readonly && p.join);
	eq_str(p.hostname, whole.hostname);
	eq_str(p.etc_hostname, whole.etc_hostname);
	eq_str(p.etc_hosts, whole.etc_hosts);
	eq_str(p.etc_resolv_conf, whole.etc_resolv_conf);
	eq_int(p.limits.memory, whole.limits.memory);
	eq_int(p.limits.cpu, whole.limits.cpu);
	eq_int(p.limits.cpu_share, whole.limits.cpu_share);
	eq_int(p.limits.pids, whole.limits.pids);
	eq_str(p.oci.program, whole.oci.program);
	eq_str(p.oci.style, whole.oci.style);
	eq_str(p.oci.args[1], whole.oci.args[1]);
	is_true(!p.oci.args[2]);
	eq_int(p.n_mounts, whole.n_mounts);
	for (size_t i = 0; i < p.n_mounts; i++)
		eq_mount(&p.mounts[i], &whole.mounts[i]);
}

TEST(a_plan_cannot_be_changed_once_it_is_sealed)
{
	autoclose fd = -1;

	works(plan_to_memfd(&whole, &fd));
	is_true(pwrite(fd, "x", 1, 0) < 0 && errno == EPERM);
	is_true(ftruncate(fd, 0) < 0 && errno == EPERM);
	is_true(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0 && errno == EPERM);
}

TEST(a_plan_that_is_too_large_is_neither_written_nor_read)
{
	autoptr(arena) a = arena_new();
	autofree char *text = xcalloc(1, PLAN_MAX + 2);
	autoclose fd = memfd_create("large", MFD_CLOEXEC), none = -1;
	struct plan p = { .hostname = text };

	memset(text, 'x', PLAN_MAX + 1);
	fails(plan_to_memfd(&p, &none), ERR_TOO_LARGE);
	eq_int(ftruncate(fd, PLAN_MAX + 1), 0);
	fails(plan_from_fd(fd, a, &p), ERR_TOO_LARGE);
}

TEST(a_plan_without_absolute_paths_is_malformed)
{
	static const char *const rows[] = {
		"",
		"[]",
		"{\"image\":{\"lower\":[\"a\"]}}",
		"{\"mounts\":[{\"from\":\"/v\"}]}",
		"{\"mounts\":[{\"to\":\"data\",\"from\":\"/v\"}]}",
		"{\"mounts\":[{\"to\":\"/data\"}]}",
		"{\"mounts\":[{\"to\":\"/data\",\"from\":\"v\"}]}",
		"{\"limits\":{\"memory\":\"1Gi\"}}",
		"{\"oci\":{\"program\":\"crun\"}}",
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		autoptr(arena) a = arena_new();
		struct plan p;

		fails(plan_from_text(rows[i], strlen(rows[i]), a, &p), ERR_MALFORMED);
	}
}

TEST(images_are_equal_only_layer_by_layer)
{
	const char *one[] = { "/a", NULL }, *two[] = { "/a", "/b", NULL };
	const char *swapped[] = { "/b", "/a", NULL };
	autoptr(arena) a = arena_new();
	const struct plan_image base = { two, false };

	is_true(plan_image_equal(&base, plan_image_copy(&base, a)));
	is_false(plan_image_equal(&base, &(struct plan_image){ two, true }));
	is_false(plan_image_equal(&base, &(struct plan_image){ one, false }));
	is_false(plan_image_equal(&base, &(struct plan_image){ swapped, false }));
	is_false(plan_image_equal(&base, &(struct plan_image){ NULL, false }));
}
