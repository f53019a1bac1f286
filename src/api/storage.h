/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct json;

/*
 * The words that PersistentVolumeClaims, PersistentVolumes and StorageClasses have in common, as
 * kube-controller-manager and the provisioners of other clusters use them.
 */

/* Who makes volumes on this node, and the driver that their source names. The volumeHandle is the
 * name of a directory in the disk pool; no object tells where that is. */
#define STORAGE_PROVISIONER "cay.dev/disk-pool"
#define STORAGE_DRIVER      "disk-pool.cay.dev"
#define STORAGE_CLASS       "cay" /* the one that is there from the start */

#define STORAGE_DEFAULT_CLASS  "storageclass.kubernetes.io/is-default-class"
#define STORAGE_BIND_COMPLETED "pv.kubernetes.io/bind-completed"
#define STORAGE_BOUND_BY_US    "pv.kubernetes.io/bound-by-controller"
#define STORAGE_PROVISIONED_BY "pv.kubernetes.io/provisioned-by"
#define STORAGE_MADE_BY        "volume.kubernetes.io/storage-provisioner"

/* Of two StorageClasses, whether a is to be the default rather than b (NULL: there is no other). */
bool storage_class_leads(const struct json *a, const struct json *b);
/* The name of the class of a claim; NULL: it has none yet. "": none, and none is wanted. */
const char *storage_claim_class(const struct json *claim);
/* The handle of a volume of ours; NULL: it is somebody else's. */
const char *storage_handle(const struct json *volume);
