/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "tls/tls.h"

/*
 * What data_dir holds besides the store: a CA, the server's and the administrator's certificates,
 * and the key that signs service-account tokens. Created on the first start.
 */
struct keys {
	struct tls_pair ca, server, admin;
	char *sa_key; /* signs service-account tokens */
};
/* sans: further names for the server's certificate, NULL-terminated or NULL. */
must_use struct err *keys_load(struct keys *k, const char *data_dir, const char *listen,
			       const char *const *sans);
must_use struct err *keys_write_kubeconfig(const struct keys *k, const char *data_dir,
					   const char *address);
void keys_done(struct keys *k);
