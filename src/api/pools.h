/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The blocks from which sandboxes have their addresses, on whatever machine: each instance takes a
 * part of both (node/host/instance.h). Nobody else is given any of them, and no policy opens them.
 * A head is the first 32 bits.
 */
#define SANDBOX_NET4        "100.64.0.0/10"
#define SANDBOX_NET4_HEAD   0x64400000u
#define SANDBOX_NET4_PREFIX 10
#define SANDBOX_NET6        "fdca:7000::/20"
#define SANDBOX_NET6_HEAD   0xfdca7000u
#define SANDBOX_NET6_PREFIX 20
/* No Service is given an address from here; it has SANDBOX_NET6 and room beside it. */
#define SANDBOX_NET6_AROUND "fdca::/16"
