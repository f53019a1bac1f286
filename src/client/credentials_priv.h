/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"

struct kubeconfig;

/*
 * What a transport shows to its server, and whom it trusts to be that server.
 */
struct credentials {
	struct curl_blob ca, cert, key; /* data NULL: none */
	bool insecure;
	char *auth; /* "Authorization: Bearer ..." or NULL */
	char *token_file;
	struct timespec token_mtime;
	usec token_checked;
};

void credentials_init(struct credentials *c, const struct kubeconfig *k);
void credentials_done(struct credentials *c); /* nothing secret stays in memory */
/* Reads the token file again if it has changed; it is looked at once a second, or now. */
void credentials_refresh(struct credentials *c, bool now);
/* They must outlive the handle's next exchange. */
void credentials_set(const struct credentials *c, CURL *h);
