/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit.h"
#include "base/mem.h"
#include "crypto/crypto.h"

/* The file behind the record, used by one thread at a time. */
struct audit_file;
must_use struct err *audit_file_open(const struct audit_spec *spec, struct audit_file **ret);
/* Whole lines. What was taken over is eaten from b, also if it could not be written yet. */
must_use struct err *audit_file_append(struct audit_file *f, struct buf *b);
/* That many lines would be one write to a file, and nothing else: no rotation, nothing left over.
 */
bool audit_file_is_quick(const struct audit_file *f, size_t len, uint64_t n_lines);
must_use struct err *audit_file_sync(struct audit_file *f); /* nothing if all of it is on disk */
must_use struct err *audit_file_end(struct audit_file *f);  /* signs what is there, and syncs */
void audit_file_free(struct audit_file *f);
AUTOPTR(audit_file)
