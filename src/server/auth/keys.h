/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "tls/tls.h"

/*
 * What data_dir holds besides the store: a CA, the server's and the administrator's certificates,
 * and the key that signs service-account tokens. Created on the first start. A CA or signing key
 * that is missing later is not replaced unless somebody says so: what it signed would become
 * invalid.
 */
struct keys {
	struct tls_pair ca, server, admin;
	char *sa_key; /* signs service-account tokens */
};
struct keys_spec {
	const char *listen;
	const char *const *sans; /* further names for the server's certificate; may be NULL */
	bool make;               /* the CA and the signing key, if they are missing */
};
/* ERR_NOT_FOUND: a key is missing and must not be made. */
must_use struct err *keys_load(struct keys *k, const char *data_dir, const struct keys_spec *spec);
must_use struct err *keys_write_kubeconfig(const struct keys *k, const char *data_dir,
					   const char *address);
void keys_done(struct keys *k);
