/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "audit/audit.h"
#include "base/mem.h"

/* The file behind the record, used by one thread at a time. */
struct audit_file;
must_use struct err *audit_file_open(const struct audit_spec *spec, struct audit_file **ret);
/* Whole lines. What was written is eaten from b, also if the rest could not be. */
must_use struct err *audit_file_append(struct audit_file *f, struct buf *b);
void audit_file_free(struct audit_file *f);
AUTOPTR(audit_file)
