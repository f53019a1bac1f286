/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* The protocols that the ports of Services and policies may have. */
uint8_t protocol_number(const char *name);        /* NULL is TCP, the default; 0: unknown */
const char *protocol_name(uint8_t number);        /* as in objects; NULL: unknown */
const char *protocol_filter_name(uint8_t number); /* as in the language of nft; NULL: unknown */
