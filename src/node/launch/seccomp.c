/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/wall.h"
#include "node/launch/launch_priv.h"
#include "node/launch/seccomp_priv.h"

/*
 * The system calls of a sandbox. Named calls are allowed; those that reach for the host answer
 * EPERM, as programs expect of a container; all others, including those that this file does not
 * know and every call of a foreign ABI, answer ENOSYS, as an older kernel would. So do io_setup and
 * its kin: the kernel has one number of requests for the whole machine, and no limit below it.
 *
 * Most verdicts depend on the number alone and become ranges of numbers (seccomp_numbers.c). Only
 * what depends on an argument is left to libseccomp, whose filters have a comparison per call.
 */
static const char *const allowed[] = {
	/* files */
	"access",
	"chdir",
	"chmod",
	"chown",
	"close",
	"close_range",
	"creat",
	"dup",
	"dup2",
	"dup3",
	"faccessat",
	"faccessat2",
	"fadvise64",
	"fallocate",
	"fchdir",
	"fchmod",
	"fchmodat",
	"fchown",
	"fchownat",
	"fcntl",
	"fdatasync",
	"fgetxattr",
	"flistxattr",
	"flock",
	"fremovexattr",
	"fsetxattr",
	"fstat",
	"fstatfs",
	"fsync",
	"ftruncate",
	"futimesat",
	"getcwd",
	"getdents",
	"getdents64",
	"getxattr",
	"lchown",
	"lgetxattr",
	"link",
	"linkat",
	"listxattr",
	"llistxattr",
	"lremovexattr",
	"lseek",
	"lsetxattr",
	"lstat",
	"mkdir",
	"mkdirat",
	"mknod",
	"mknodat",
	"name_to_handle_at",
	"newfstatat",
	"open",
	"openat",
	"openat2",
	"pipe",
	"pipe2",
	"pread64",
	"preadv",
	"preadv2",
	"pwrite64",
	"pwritev",
	"pwritev2",
	"read",
	"readahead",
	"readlink",
	"readlinkat",
	"readv",
	"removexattr",
	"rename",
	"renameat",
	"renameat2",
	"rmdir",
	"sendfile",
	"setxattr",
	"splice",
	"stat",
	"statfs",
	"statx",
	"symlink",
	"symlinkat",
	"sync",
	"sync_file_range",
	"syncfs",
	"tee",
	"truncate",
	"umask",
	"unlink",
	"unlinkat",
	"utime",
	"utimensat",
	"utimes",
	"vmsplice",
	"write",
	"writev",
	"chroot",
	"inotify_add_watch",
	"inotify_init",
	"inotify_init1",
	"inotify_rm_watch",
	"ustat",
	/* memory */
	"brk",
	"get_mempolicy",
	"madvise",
	"mbind",
	"membarrier",
	"memfd_create",
	"memfd_secret",
	"mincore",
	"mlock",
	"mlock2",
	"mlockall",
	"mmap",
	"mprotect",
	"mremap",
	"msync",
	"munlock",
	"munlockall",
	"munmap",
	"pkey_alloc",
	"pkey_free",
	"pkey_mprotect",
	"process_madvise",
	"process_mrelease",
	"remap_file_pages",
	"set_mempolicy",
	"set_mempolicy_home_node",
	/* processes */
	"arch_prctl",
	"capget",
	"capset",
	"execve",
	"execveat",
	"exit",
	"exit_group",
	"fork",
	"get_robust_list",
	"get_thread_area",
	"getegid",
	"geteuid",
	"getgid",
	"getgroups",
	"getpgid",
	"getpgrp",
	"getpid",
	"getppid",
	"getpriority",
	"getresgid",
	"getresuid",
	"getrlimit",
	"getrusage",
	"getsid",
	"gettid",
	"getuid",
	"ioprio_get",
	"ioprio_set",
	"kcmp",
	"kill",
	"modify_ldt",
	"pause",
	"pidfd_getfd",
	"pidfd_open",
	"pidfd_send_signal",
	"prctl",
	"process_vm_readv",
	"process_vm_writev",
	"ptrace",
	"restart_syscall",
	"rseq",
	"sched_getaffinity",
	"sched_getattr",
	"sched_getparam",
	"sched_get_priority_max",
	"sched_get_priority_min",
	"sched_getscheduler",
	"sched_rr_get_interval",
	"sched_setaffinity",
	"sched_setattr",
	"sched_setparam",
	"sched_setscheduler",
	"sched_yield",
	"seccomp",
	"set_robust_list",
	"set_thread_area",
	"set_tid_address",
	"setfsgid",
	"setfsuid",
	"setgid",
	"setgroups",
	"setpgid",
	"setpriority",
	"setregid",
	"setresgid",
	"setresuid",
	"setreuid",
	"setsid",
	"setuid",
	"sysinfo",
	"times",
	"tgkill",
	"tkill",
	"uname",
	"vfork",
	"wait4",
	"waitid",
	"getcpu",
	"getrandom",
	"landlock_add_rule",
	"landlock_create_ruleset",
	"landlock_restrict_self",
	/* signals, waiting, time */
	"alarm",
	"clock_getres",
	"clock_gettime",
	"clock_nanosleep",
	"epoll_create",
	"epoll_create1",
	"epoll_ctl",
	"epoll_pwait",
	"epoll_pwait2",
	"epoll_wait",
	"eventfd",
	"eventfd2",
	"futex",
	"futex_waitv",
	"getitimer",
	"gettimeofday",
	"nanosleep",
	"poll",
	"ppoll",
	"pselect6",
	"rt_sigaction",
	"rt_sigpending",
	"rt_sigprocmask",
	"rt_sigqueueinfo",
	"rt_sigreturn",
	"rt_sigsuspend",
	"rt_sigtimedwait",
	"rt_tgsigqueueinfo",
	"select",
	"setitimer",
	"sigaltstack",
	"signalfd",
	"signalfd4",
	"time",
	"timer_create",
	"timer_delete",
	"timer_getoverrun",
	"timer_gettime",
	"timer_settime",
	"timerfd_create",
	"timerfd_gettime",
	"timerfd_settime",
	/* sockets and IPC */
	"accept",
	"accept4",
	"bind",
	"connect",
	"getpeername",
	"getsockname",
	"getsockopt",
	"listen",
	"mq_getsetattr",
	"mq_notify",
	"mq_open",
	"mq_timedreceive",
	"mq_timedsend",
	"mq_unlink",
	"msgctl",
	"msgget",
	"msgrcv",
	"msgsnd",
	"recvfrom",
	"recvmmsg",
	"recvmsg",
	"semctl",
	"semget",
	"semop",
	"semtimedop",
	"sendmmsg",
	"sendmsg",
	"sendto",
	"setsockopt",
	"shmat",
	"shmctl",
	"shmdt",
	"shmget",
	"shutdown",
};

/* Newer than the library's table: cachestat, fchmodat2, map_shadow_stack, futex_*, mseal, *xattrat
 */
static const int allowed_numbers[] = { 451, 452, 453, 454, 455, 456, 462, 463, 464, 465, 466 };

static const char *const forbidden[] = {
	"mount",
	"umount2",
	"pivot_root",
	"fsopen",
	"fsconfig",
	"fsmount",
	"fspick",
	"move_mount",
	"open_tree",
	"mount_setattr",
	"setns",
	"keyctl",
	"add_key",
	"request_key",
	"bpf",
	"perf_event_open",
	"userfaultfd",
	"kexec_load",
	"kexec_file_load",
	"init_module",
	"finit_module",
	"delete_module",
	"create_module",
	"query_module",
	"open_by_handle_at",
	"quotactl",
	"quotactl_fd",
	"reboot",
	"swapon",
	"swapoff",
	"acct",
	"iopl",
	"ioperm",
	"io_uring_setup",
	"io_uring_enter",
	"io_uring_register",
	"lookup_dcookie",
	"nfsservctl",
	"vhangup",
	"settimeofday",
	"clock_settime",
	"clock_adjtime",
	"adjtimex",
	"syslog",
	"sethostname",
	"setdomainname",
	"fanotify_init",
	"fanotify_mark",
	"move_pages",
	"migrate_pages",
	"uselib",
	"_sysctl",
	"sysfs",
};

static const uint64_t ns_flags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
				 CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWTIME;
static const uint64_t personalities[] = { 0x0, 0x8, 0x20000, 0x20008, 0xffffffff };

/*
 * Sockets: every other family and protocol is code of the kernel that few have tested, or a way
 * around the network namespace (vsock). Netlink is for asking about one's own links and routes.
 * Connections over several ways (MPTCP) would let the peer name further addresses to connect to;
 * programs that prefer it go on with TCP.
 */
static const struct {
	int family, protocol;
} sockets[] = {
	{ AF_UNIX, 0 },
	{ AF_UNIX, AF_UNIX }, /* an old habit */
	{ AF_INET, 0 },
	{ AF_INET, IPPROTO_ICMP },
	{ AF_INET, IPPROTO_TCP },
	{ AF_INET, IPPROTO_UDP },
	{ AF_INET6, 0 },
	{ AF_INET6, IPPROTO_ICMPV6 },
	{ AF_INET6, IPPROTO_TCP },
	{ AF_INET6, IPPROTO_UDP },
	{ AF_NETLINK, NETLINK_ROUTE },
};

/* The calls that have rules by argument below. */
static const char *const by_argument[] = {
	"clone",  "unshare",    "personality", "ioctl",
	"socket", "socketpair", "setrlimit",   "prlimit64",
};

static const char *const asynchronous[] = { "io_setup" };

/* A number is negative where this architecture has no such call. */
static void judge(struct call_verdicts *v, int nr, uint32_t verdict)
{
	if (nr >= 0 && nr < CALLS_MAX)
		v->of[nr] = verdict;
}

static void judge_named(struct call_verdicts *v, const char *const names[], size_t n,
			uint32_t verdict)
{
	for (size_t i = 0; i < n; i++)
		judge(v, seccomp_syscall_resolve_name_arch(v->arch, names[i]), verdict);
}

static void judge_by_number(struct call_verdicts *v, uint32_t arch)
{
	const uint32_t unknown = SECCOMP_RET_ERRNO | ENOSYS, refused = SECCOMP_RET_ERRNO | EPERM;

	v->arch = arch;
	v->other = unknown;
	v->foreign = wall_stands("seccomp-abi") ? unknown : SECCOMP_RET_ALLOW;
	for (size_t i = 0; i < CALLS_MAX; i++)
		v->of[i] = unknown;
	judge_named(v, allowed, ARRAY_LEN(allowed), SECCOMP_RET_ALLOW);
	for (size_t i = 0; i < ARRAY_LEN(allowed_numbers); i++)
		judge(v, allowed_numbers[i], SECCOMP_RET_ALLOW);
	if (!wall_stands("seccomp-aio"))
		judge_named(v, asynchronous, ARRAY_LEN(asynchronous), SECCOMP_RET_ALLOW);
	judge_named(v, forbidden, ARRAY_LEN(forbidden),
		    wall_stands("seccomp-forbidden") ? refused : SECCOMP_RET_ALLOW);
	judge_named(v, by_argument, ARRAY_LEN(by_argument), CALL_BY_ARGUMENT);
}

/* An int argument is its lower half for the kernel, whatever the upper half holds. */
static const uint64_t low_half = UINT32_MAX;

static int allow_if(scmp_filter_ctx ctx, int nr, struct scmp_arg_cmp arg)
{
	return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 1, arg);
}

/* As a kernel without auditing answers. With ENOSYS, libpam would let nobody in: su, login. */
static int deny_audit(scmp_filter_ctx ctx)
{
	return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPROTONOSUPPORT), SCMP_SYS(socket), 2,
				SCMP_A0(SCMP_CMP_MASKED_EQ, low_half, (uint64_t)AF_NETLINK),
				SCMP_A2(SCMP_CMP_MASKED_EQ, low_half, (uint64_t)NETLINK_AUDIT));
}

static int allow_sockets(scmp_filter_ctx ctx)
{
	int r = 0;

	for (size_t i = 0; !r && i < ARRAY_LEN(sockets); i++)
		r = seccomp_rule_add(
			ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
			SCMP_A0(SCMP_CMP_MASKED_EQ, low_half, (uint64_t)sockets[i].family),
			SCMP_A2(SCMP_CMP_MASKED_EQ, low_half, (uint64_t)sockets[i].protocol));
	if (!r)
		r = allow_if(ctx, SCMP_SYS(socketpair),
			     SCMP_A0(SCMP_CMP_MASKED_EQ, low_half, AF_UNIX));
	if (!r)
		r = wall_stands("seccomp-socket")
			    ? deny_audit(ctx)
			    : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 0);
	return r;
}

/* Setting the limit of core files is answered with success and ignored: it has to stay 1. */
static int allow_rlimits(scmp_filter_ctx ctx)
{
	bool keep = wall_stands("seccomp-core-limit");
	uint32_t core = keep ? SCMP_ACT_ERRNO(0) : SCMP_ACT_ALLOW;
	int r = 0;

	for (uint64_t what = 0; !r && what < RLIM_NLIMITS; what++) {
		const struct scmp_arg_cmp a0 = SCMP_A0(SCMP_CMP_MASKED_EQ, low_half, what);
		const struct scmp_arg_cmp a1 = SCMP_A1(SCMP_CMP_MASKED_EQ, low_half, what);

		r = seccomp_rule_add(ctx, what == RLIMIT_CORE ? core : SCMP_ACT_ALLOW,
				     SCMP_SYS(setrlimit), 1, a0);
		if (!r && (what != RLIMIT_CORE || !keep))
			r = allow_if(ctx, SCMP_SYS(prlimit64), a1);
		else if (!r)
			r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2, a1,
					     SCMP_A2(SCMP_CMP_EQ, 0));
		if (!r && what == RLIMIT_CORE && keep)
			r = seccomp_rule_add(ctx, core, SCMP_SYS(prlimit64), 2, a1,
					     SCMP_A2(SCMP_CMP_NE, 0));
	}
	return r;
}

/*
 * Requests of btrfs make subvolumes, and one inside a volume would have no limit. Copies that share
 * blocks (FICLONE and its kin) have numbers from the same range, and are counted only when the file
 * system commits: one would carry a volume past its limit. copy_file_range shares blocks too and is
 * not allowed above; programs copy the bytes instead. A request is not of that range if one bit of
 * its type differs; there is no comparison for a mask that is not equal.
 */
static int allow_ioctl(scmp_filter_ctx ctx)
{
	const uint64_t type = (uint64_t)_IOC_TYPE(FICLONE) << _IOC_TYPESHIFT;
	const uint64_t mask = (uint64_t)_IOC_TYPEMASK << _IOC_TYPESHIFT;
	int r = 0;

	if (!wall_stands("seccomp-btrfs"))
		return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 0);
	for (uint64_t bit = 1 << _IOC_TYPESHIFT; !r && bit & mask; bit <<= 1)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
				     SCMP_A1(SCMP_CMP_MASKED_EQ, bit, ~type & bit));
	return r;
}

/* Calls that are fine with some arguments. clone3 hides its flags in memory: it stays unknown. */
static int allow_by_argument(scmp_filter_ctx ctx)
{
	bool ns = wall_stands("seccomp-namespaces");
	uint64_t flags = ns ? ns_flags : 0;
	int r;

	r = allow_if(ctx, SCMP_SYS(clone),
		     SCMP_A0(SCMP_CMP_MASKED_EQ, flags & ~(uint64_t)CLONE_NEWTIME, 0));
	if (!r)
		r = allow_if(ctx, SCMP_SYS(unshare), SCMP_A0(SCMP_CMP_MASKED_EQ, flags, 0));
	for (size_t i = 0; !r && i < ARRAY_LEN(personalities); i++)
		r = allow_if(ctx, SCMP_SYS(personality), SCMP_A0(SCMP_CMP_EQ, personalities[i]));
	if (!r)
		r = allow_sockets(ctx);
	return r ? r : allow_rlimits(ctx);
}

static int add_rules(scmp_filter_ctx ctx)
{
	int r = allow_ioctl(ctx);

	return r ? r : allow_by_argument(ctx);
}

static struct err *export_filter(scmp_filter_ctx ctx, struct sock_fprog *ret)
{
	autoclose fd = memfd_create("cay-seccomp", MFD_CLOEXEC);
	autofree char *bytes = NULL;
	off_t len;
	int r;

	if (fd < 0)
		return err_sys(errno, "create a memory file");
	r = seccomp_export_bpf(ctx, fd);
	if (r < 0)
		return err_sys(-r, "compile the system call filter");
	len = lseek(fd, 0, SEEK_END);
	bytes = xmalloc((size_t)len);
	if (pread(fd, bytes, (size_t)len, 0) != len)
		return err_sys(errno, "read the system call filter");
	ret->len = (unsigned short)((size_t)len / sizeof(struct sock_filter));
	ret->filter = (void *)take(bytes);
	return NULL;
}

/* The rules have numbers of this machine's; libseccomp translates them. */
static int choose_arch(scmp_filter_ctx ctx, uint32_t arch)
{
	int r;

	if (arch == seccomp_arch_native())
		return 0;
	r = seccomp_arch_add(ctx, arch);
	return r ? r : seccomp_arch_remove(ctx, SCMP_ARCH_NATIVE);
}

static struct err *compile_rules(uint32_t arch, struct sock_fprog *ret)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	struct err *e = NULL;
	int r;

	if (!ctx)
		return err_new(ERR_INTERNAL, "libseccomp returned no filter context");
	r = choose_arch(ctx, arch);
	if (!r)
		r = add_rules(ctx);
	if (r < 0)
		e = err_sys(-r, "build the system call filter");
	else
		e = export_filter(ctx, ret);
	seccomp_release(ctx);
	return e;
}

struct err *seccomp_compile(struct sock_fprog *ret)
{
	return seccomp_compile_for(seccomp_arch_native(), ret);
}

struct err *seccomp_compile_for(uint32_t arch, struct sock_fprog *ret)
{
	autofree struct call_verdicts *v = xnew(struct call_verdicts);
	struct sock_fprog rules = { 0 };
	struct err *e = compile_rules(arch, &rules);

	if (e)
		return e;
	judge_by_number(v, arch);
	e = seccomp_numbers(v, &rules, ret);
	free(rules.filter);
	return e;
}

struct err *seccomp_install(const struct sock_fprog *filter)
{
	if (wall_stands("seccomp") && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, filter) < 0)
		return err_sys(errno, "install the system call filter");
	return NULL;
}
