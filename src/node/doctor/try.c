/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/str.h"
#include "node/disk/disk.h"
#include "node/doctor/doctor_priv.h"
#include "node/host/firewall.h"
#include "node/host/netlink.h"

/*
 * What must be tried to be known, because a host may have it and it still does not work. Each try
 * is made in a child, which takes with it whatever it has made, and has a deadline.
 */
enum {
	TRY_MS = 5000,
	KVM_LOOPS = 1000000,
	KVM_SLOW_US = 50000, /* some 500 are usual */
	PAGE = 4096,
	MEMORY_DISK = 64 << 20, /* bytes; next to none of them are written */
	LANDLOCK_NETWORK = 4,   /* the first version that knows of ports */
};

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif
enum {
	LANDLOCK_VERSION = 1, /* the flag that asks for it */
};

enum tried {
	TRIED_OK,
	TRIED_SLOW,
	TRIED_FAILED,
	TRIED_TOO_LONG,
};

static enum tried try_in_child(enum tried (*one)(void))
{
	enum tried result = TRIED_TOO_LONG;
	int status = 0;
	pid_t pid = fork();
	struct pollfd p = { .events = POLLIN };

	if (pid < 0)
		return TRIED_FAILED;
	if (!pid) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the deadline is the parent's */
		_exit((int)one());
	}
	p.fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p.fd < 0 || poll(&p, 1, TRY_MS) != 1)
		(void)kill(pid, SIGKILL);
	if (p.fd >= 0)
		(void)close(p.fd);
	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status))
		result = (enum tried)WEXITSTATUS(status);
	return result;
}

/* The end of the child ends its network, and the link with it. */
static enum tried try_veth(void)
{
	static const uint8_t mac[] = { 2, 0xca, 0x79, 0, 0, 1 },
			     peer[] = { 2, 0xca, 0x79, 0, 0, 2 };
	struct netlink *nl = NULL;
	struct err *e;
	int ns;

	if (unshare(CLONE_NEWNET) < 0)
		return TRIED_FAILED;
	ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	e = netlink_open(&nl);
	if (!e) {
		netlink_add_veth(nl, &(struct netlink_veth){ .name = "here",
							     .peer_name = "there",
							     .peer_ns = ns,
							     .mac = mac,
							     .peer_mac = peer });
		e = netlink_commit(nl);
	}
	return e ? TRIED_FAILED : TRIED_OK;
}

/* Each Pod's network is one of these. */
void check_veth(struct doctor *d)
{
	bool works = try_in_child(try_veth) == TRIED_OK;

	doctor_say(d, "veth", works ? VERDICT_OK : VERDICT_FAIL,
		   xasprintf("pairs of links between networks %s",
			     works ? "can be made" : "cannot be made"),
		   xstrdup("run as root with CAP_NET_ADMIN and CAP_SYS_ADMIN, and modprobe veth"));
}

static enum tried try_outlet(void)
{
	if (unshare(CLONE_NEWNET) < 0 || !firewall_try(false))
		return TRIED_TOO_LONG; /* other checks say why */
	return firewall_try(true) ? TRIED_OK : TRIED_FAILED;
}

/* The packet filter knows the outlet by the mark of its socket, and is not loaded without. */
void check_outlet(struct doctor *d)
{
	enum tried t = try_in_child(try_outlet);
	const char *can = t == TRIED_OK       ? "knows sockets by their marks"
			  : t == TRIED_FAILED ? "lacks nft_socket, by which it knows the outlet"
					      : "could not be tried";

	doctor_say(d, "outlet",
		   t == TRIED_OK       ? VERDICT_OK
		   : t == TRIED_FAILED ? VERDICT_FAIL
				       : VERDICT_WARN,
		   xasprintf("the packet filter %s", can),
		   xstrdup(t == TRIED_TOO_LONG
				   ? "run as root with CAP_NET_ADMIN and CAP_SYS_ADMIN"
				   : "modprobe nft_socket, or use a kernel with CONFIG_NFT_SOCKET; "
				     "cay serve --outlet off does without"));
}

/* In a tmpfs that nobody else sees. The loop device goes with the mount. */
static struct err *mount_memory_disk(void)
{
	struct err *e;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) < 0 ||
	    mount("cay", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700") < 0)
		return err_sys(errno, "mount a tmpfs");
	e = memory_disk_mount("/tmp", "/tmp/disk", MEMORY_DISK);
	memory_disk_unmount("/tmp/disk");
	return e;
}

struct err *doctor_try_memory_disk(void)
{
	int answer[2], status = 0;
	struct pollfd p = { .events = POLLIN };
	char text[512];
	ssize_t n = -1;
	pid_t pid;

	if (pipe2(answer, O_CLOEXEC) < 0)
		return err_sys(errno, "make a pipe");
	pid = fork();
	if (!pid) {
		struct err *e = mount_memory_disk();
		const char *why = e ? err_text(e) : "";

		err_free(fd_write_all(answer[1], why, strlen(why)));
		_exit(0);
	}
	(void)close(answer[1]);
	p.fd = answer[0];
	if (pid > 0 && poll(&p, 1, TRY_MS) == 1)
		n = read(answer[0], text, sizeof(text) - 1);
	if (pid > 0 && n < 0)
		(void)kill(pid, SIGKILL);
	(void)close(answer[0]);
	if (pid > 0)
		(void)waitpid(pid, &status, 0);
	if (n < 0 || !WIFEXITED(status))
		return err_new(ERR_TIMEOUT, "it was not made within %d s", TRY_MS / 1000);
	text[n] = '\0';
	return n ? err_new(ERR_UNSUPPORTED, "%s", text) : NULL;
}

#ifdef __x86_64__
/* A guest that counts to a million and halts: mov ecx, n; loop to itself by ecx; hlt. */
static enum tried try_kvm(void)
{
	static const uint8_t code[] = { 0x66,
					0xb9,
					KVM_LOOPS & 0xff,
					KVM_LOOPS >> 8 & 0xff,
					KVM_LOOPS >> 16,
					0x00,
					0x67,
					0xe2,
					0xfd,
					0xf4 };
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm = -1, cpu = -1;
	void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct kvm_userspace_memory_region region = { .memory_size = PAGE };
	struct kvm_sregs special;
	struct kvm_regs regs = { .rflags = 2 };
	struct kvm_run *run;
	usec begin;
	long size;

	if (kvm < 0 || memory == MAP_FAILED)
		return TRIED_FAILED;
	memcpy(memory, code, sizeof(code));
	region.userspace_addr = (uint64_t)(uintptr_t)memory;
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (vm < 0 || size <= 0 || ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return TRIED_FAILED;
	cpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	run = cpu < 0 ? MAP_FAILED
		      : mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
	if (run == MAP_FAILED || ioctl(cpu, KVM_GET_SREGS, &special) < 0)
		return TRIED_FAILED;
	special.cs.base = special.cs.selector = 0;
	if (ioctl(cpu, KVM_SET_SREGS, &special) < 0 || ioctl(cpu, KVM_SET_REGS, &regs) < 0)
		return TRIED_FAILED;
	begin = clock_mono();
	if (ioctl(cpu, KVM_RUN, 0) < 0 || run->exit_reason != KVM_EXIT_HLT)
		return TRIED_FAILED;
	return clock_mono() - begin > KVM_SLOW_US ? TRIED_SLOW : TRIED_OK;
}
#else
static enum tried try_kvm(void)
{
	return access("/dev/kvm", R_OK | W_OK) ? TRIED_FAILED : TRIED_OK;
}
#endif

/* Runtimes that start a virtual machine for each sandbox need it; nobody else does. */
void check_kvm(struct doctor *d)
{
	static const struct {
		const char *message, *fix;
	} rows[] = {
		[TRIED_OK] = { "virtual machines run at full speed", NULL },
		[TRIED_SLOW] = { "virtual machines run, but each instruction is emulated",
				 "runtimes like kata are of no use here; use a host whose processor "
				 "offers virtualisation to it" },
		[TRIED_FAILED] = { "virtual machines cannot be run",
				   "only runtimes like kata need it: modprobe kvm_intel or kvm_amd, "
				   "or enable nested virtualisation for this host" },
		[TRIED_TOO_LONG] = { "a virtual machine did not get anywhere",
				     "runtimes like kata are of no use here; use a host whose "
				     "processor offers virtualisation to it" },
	};
	enum tried t = try_in_child(try_kvm);

	doctor_say(d, "kvm", t == TRIED_OK ? VERDICT_OK : VERDICT_WARN, xstrdup(rows[t].message),
		   xstrdup(rows[t].fix));
}

void check_landlock(struct doctor *d)
{
	long version = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_VERSION);

	doctor_say(
		d, "landlock", version >= LANDLOCK_NETWORK ? VERDICT_OK : VERDICT_WARN,
		version < 0 ? xstrdup("the kernel has no Landlock")
			    : xasprintf("the kernel has version %ld of Landlock", version),
		xstrdup("programs in sandboxes cannot restrict themselves by it; use Linux 6.7 or "
			"later, with landlock among lsm= if that is set"));
}

/* On hosts with control groups of version 1, where every Pod's first process has to be moved. */
void check_cgroup_moves(struct doctor *d)
{
	autofree char *text = NULL;
	bool v1, quick;

	err_free(file_read(AT_FDCWD, "/proc/self/mountinfo", 4 << 20, &text, NULL));
	v1 = text && strstr(text, " - cgroup ");
	quick = !v1 || strstr(text, "favordynmods");
	doctor_say(
		d, "cgroup-moves", quick ? VERDICT_OK : VERDICT_WARN,
		xstrdup(quick ? "processes enter control groups at once"
			      : "a process may wait 20 ms to enter a control group"),
		xstrdup("sandboxes that are made ahead do not wait; for more of them at a time, "
			"mount -o remount,favordynmods /sys/fs/cgroup/pids (until the next boot)"));
}
