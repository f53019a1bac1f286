/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <linux/ioctl.h>
#include <stdint.h>

/*
 * What we ask of the btrfs in the kernel. Its own header cannot be included: it uses a name
 * (ctime) that base/banned.h forbids.
 */
struct btrfs_vol_args {
	int64_t fd;
	char name[4088];
};

struct btrfs_quota_ctl {
	uint64_t cmd, status;
};

struct btrfs_qgroup_limit {
	uint64_t qgroupid; /* 0: that of the subvolume */
	uint64_t flags, max_rfer, max_excl, rsv_rfer, rsv_excl;
};

struct btrfs_qgroup_create {
	uint64_t create, qgroupid;
};

struct btrfs_ino_lookup {
	uint64_t treeid, objectid;
	char name[4080];
};

enum {
	BTRFS_QUOTA_ENABLE = 1,
	BTRFS_LIMIT_MAX_RFER = 1 << 0,
	BTRFS_SUBVOLUME_INODE = 256, /* the root directory of each subvolume */
};

#define BTRFS_SUBVOL_CREATE     _IOW(0x94, 14, struct btrfs_vol_args)
#define BTRFS_SNAP_DESTROY      _IOW(0x94, 15, struct btrfs_vol_args)
#define BTRFS_INO_LOOKUP        _IOWR(0x94, 18, struct btrfs_ino_lookup)
#define BTRFS_QUOTA_CTL         _IOWR(0x94, 40, struct btrfs_quota_ctl)
#define BTRFS_QGROUP_CREATE     _IOW(0x94, 42, struct btrfs_qgroup_create)
#define BTRFS_QGROUP_LIMIT      _IOR(0x94, 43, struct btrfs_qgroup_limit)
#define BTRFS_QUOTA_RESCAN_WAIT _IO(0x94, 46)
