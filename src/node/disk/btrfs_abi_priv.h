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

/* Reads items of the tree of a subvolume; buf has nr_items times a header and what it describes. */
struct btrfs_search {
	uint64_t tree_id; /* 0: that of the descriptor */
	uint64_t min_objectid, max_objectid, min_offset, max_offset, min_transid, max_transid;
	uint32_t min_type, max_type, nr_items, unused1;
	uint64_t unused2[4];
	uint64_t buf_size;
	char buf[];
};

struct btrfs_search_header {
	uint64_t transid, objectid, offset;
	uint32_t type, len;
};

struct __attribute__((packed)) btrfs_file_extent {
	uint64_t generation, ram_bytes;
	uint8_t compression, encryption, other[2], type;
	uint64_t disk_bytenr, disk_num_bytes; /* these two if it is not inline */
	uint64_t offset, num_bytes;
};

struct btrfs_qgroup_info {
	uint64_t generation, referenced, referenced_compressed, exclusive, exclusive_compressed;
};

#define BTRFS_ORPHAN_OBJECTID ((uint64_t)-5)

enum {
	BTRFS_ORPHAN_ITEM = 48,
	BTRFS_EXTENT_DATA = 108,
	BTRFS_QUOTA_TREE = 8,
	BTRFS_QGROUP_INFO = 242,
	BTRFS_QUOTA_ENABLE = 1,
	BTRFS_LIMIT_MAX_RFER = 1 << 0,
	BTRFS_SUBVOLUME_INODE = 256, /* the root directory of each subvolume */
};

#define BTRFS_SYNC              _IO(0x94, 8)
#define BTRFS_SUBVOL_CREATE     _IOW(0x94, 14, struct btrfs_vol_args)
#define BTRFS_SNAP_CREATE       _IOW(0x94, 1, struct btrfs_vol_args)
#define BTRFS_SNAP_DESTROY      _IOW(0x94, 15, struct btrfs_vol_args)
#define BTRFS_TREE_SEARCH_V2    _IOWR(0x94, 17, struct btrfs_search)
#define BTRFS_INO_LOOKUP        _IOWR(0x94, 18, struct btrfs_ino_lookup)
#define BTRFS_QUOTA_CTL         _IOWR(0x94, 40, struct btrfs_quota_ctl)
#define BTRFS_QGROUP_CREATE     _IOW(0x94, 42, struct btrfs_qgroup_create)
#define BTRFS_QGROUP_LIMIT      _IOR(0x94, 43, struct btrfs_qgroup_limit)
#define BTRFS_QUOTA_RESCAN_WAIT _IO(0x94, 46)
