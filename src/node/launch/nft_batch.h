/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct nlmsghdr;

/*
 * nftables over netlink, in the network namespace of this thread: messages about tables of the
 * family inet, which take effect all together or not at all. It takes a quarter to a third of the
 * time that libnftables takes, which parses text and asks the kernel what is there.
 */
struct nft_batch {
	struct buf out;
	uint32_t seq;
	void *room; /* for one message */
	struct nlmsghdr *h;
};

void nft_begin(struct nft_batch *b, void *room);
/* NFT_MSG_*. One message of a batch at least must have NLM_F_ACK among its flags. */
struct nlmsghdr *nft_message(struct nft_batch *b, uint16_t type, uint16_t flags);
void nft_message_end(struct nft_batch *b);
/* In a list of elements of a set. end: of the range that began before it. */
void nft_put_element(struct nlmsghdr *h, const void *key, size_t len, bool end);
/* Sends it, and frees what it has. The error says what was being done. */
must_use struct err *nft_commit(struct nft_batch *b, const char *doing);
