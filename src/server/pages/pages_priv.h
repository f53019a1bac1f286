/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "server/pages/pages.h"

/* discovery.c: /api, /apis and below. False: there is no such page. */
bool discovery_show(const struct pages *ps, struct call *c);
/* openapi_v3.c, openapi_v2.c */
void health_show(struct pages *ps, struct call *c);
void openapi_v3_show(struct pages *ps, struct call *c);
void openapi_v2_show(struct pages *ps, struct call *c);

/* issuer.c: /.well-known/openid-configuration, and the keys that it leads to */
void issuer_show(struct pages *ps, struct call *c);
void issuer_show_keys(struct pages *ps, struct call *c);
