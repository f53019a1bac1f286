/* SPDX-License-Identifier: Apache-2.0 */
#include "node/host/packet_wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ip.h"
#include "base/mem.h"
#include "loop/jobs.h"
#include "loop/loop.h"

/*
 * A packet socket on the host's end of a link sees what leaves there for the sandbox, after the
 * host's packet filter has let it through. The socket has no protocol until its filter is in place,
 * so that nothing else is ever queued.
 */
struct packet_wait {
	int fd;
	struct watch *watch;
	void (*fn)(void *arg);
	void (*fn_each)(void *arg, const struct ip *to);
	struct timer *pause; /* of one that reports each */
	void *arg;
};

enum {
	BUDGET = 256,              /* packets that are read before a pause */
	PAUSE_MS = 10,             /* the others wait in the socket, or are dropped there */
	QUEUE_BYTES = 1024 * 1024, /* of the socket: each packet takes most of a page */
	SYN = 0x02,
	V4_LEN = 2,   /* where the length of the whole is */
	V4_FRAG = 6,  /* the offset of a fragment */
	V4_PROTO = 9, /* the protocol inside */
	V6_LEN = 4,   /* of what follows its header */
	V6_NEXT = 6,
	V6_HEAD = 40,
	V4_TO = 16, /* where the destination is */
	V6_TO = 24,
	TCP_OFFSET = 12, /* of the data, in the upper half of the byte */
	TCP_FLAGS = 13,
	ECHO4 = 8, /* ICMP types */
	ECHO6 = 128,
};

#define LOAD8(at)        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (at))
#define LOAD16(at)       BPF_STMT(BPF_LD | BPF_H | BPF_ABS, (at))
#define LOAD8_X(at)      BPF_STMT(BPF_LD | BPF_B | BPF_IND, (at))
#define LOAD_ABOUT(what) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + (what)))
#define IP_HEAD_LEN_TO_X BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0)
#define SHIFT_RIGHT(n)   BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, (n))
#define SHIFT_LEFT(n)    BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, (n))
#define ADD_X            BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0)
#define TO_X             BPF_STMT(BPF_MISC | BPF_TAX, 0)
/* The next line counts if it is so; else n lines are passed over. */
#define IS(k, n)       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (k), 0, (n))
#define HAS(k, n)      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (k), 0, (n))
#define MORE_THAN_X(n) BPF_JUMP(BPF_JMP | BPF_JGT | BPF_X, 0, 0, (n))
#define PASS           BPF_STMT(BPF_RET | BPF_K, V6_HEAD)
#define DROP           BPF_STMT(BPF_RET | BPF_K, 0)
#define V4_LINES       26 /* from the test for it to that for IPv6 */

/* Offsets are from the network header. Data of TCP: the whole is longer than the headers. */
static struct sock_filter program[] = {
	LOAD_ABOUT(SKF_AD_PKTTYPE),
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 1, 0),
	DROP,
	LOAD_ABOUT(SKF_AD_PROTOCOL),

	IS(ETH_P_IP, V4_LINES),
	LOAD8(V4_PROTO),
	IS(IPPROTO_UDP, 1),
	PASS,
	IS(IPPROTO_ICMP, 5),
	IP_HEAD_LEN_TO_X,
	LOAD8_X(0),
	IS(ECHO4, 1),
	PASS,
	DROP,
	IS(IPPROTO_TCP, 15),
	LOAD16(V4_FRAG),
	HAS(0x1fff, 1),
	PASS,
	IP_HEAD_LEN_TO_X,
	LOAD8_X(TCP_FLAGS),
	HAS(SYN, 1),
	PASS,
	LOAD8_X(TCP_OFFSET),
	SHIFT_RIGHT(4),
	SHIFT_LEFT(2),
	ADD_X,
	TO_X,
	LOAD16(V4_LEN),
	MORE_THAN_X(1),
	PASS,
	DROP,

	IS(ETH_P_IPV6, 19),
	LOAD8(V6_NEXT),
	IS(IPPROTO_UDP, 1),
	PASS,
	IS(IPPROTO_ICMPV6, 4),
	LOAD8(V6_HEAD),
	IS(ECHO6, 1),
	PASS,
	DROP,
	IS(IPPROTO_TCP, 10),
	LOAD8(V6_HEAD + TCP_FLAGS),
	HAS(SYN, 1),
	PASS,
	LOAD8(V6_HEAD + TCP_OFFSET),
	SHIFT_RIGHT(4),
	SHIFT_LEFT(2),
	TO_X,
	LOAD16(V6_LEN),
	MORE_THAN_X(1),
	PASS,
	DROP,
};

static void on_packet(void *arg, unused unsigned ready)
{
	struct packet_wait *w = arg;

	watch_want(w->watch, 0);
	w->fn(w->arg);
}

/* Where a packet goes, from its first bytes. */
static bool destination(const uint8_t *p, size_t len, struct ip *ret)
{
	uint32_t v4;

	if (len >= V6_HEAD && p[0] >> 4 == 6) {
		memcpy(ret->octet, p + V6_TO, sizeof(ret->octet));
		return true;
	}
	if (len < V4_TO + sizeof(v4) || p[0] >> 4 != 4)
		return false;
	memcpy(&v4, p + V4_TO, sizeof(v4));
	*ret = ip_from4(ntohl(v4));
	return true;
}

/* The pause bounds what a sender who does not stop can cost. */
static void on_packets(void *arg, unused unsigned ready)
{
	struct packet_wait *w = arg;
	uint8_t head[V6_HEAD];
	struct ip to;

	watch_want(w->watch, 0);
	timer_set(w->pause, PAUSE_MS);
	for (int i = 0; i < BUDGET; i++) {
		ssize_t n = recv(w->fd, head, sizeof(head), MSG_DONTWAIT);

		if (n < 0)
			return;
		if (destination(head, (size_t)n, &to))
			w->fn_each(w->arg, &to);
	}
}

static void on_pause_over(void *arg)
{
	watch_want(((struct packet_wait *)arg)->watch, WATCH_READ);
}

static void close_it(void *arg)
{
	struct packet_wait *w = arg;

	if (w->fd >= 0)
		(void)close(w->fd);
}

void packet_wait_free(struct packet_wait *w, struct jobs *j)
{
	if (!w)
		return;
	watch_free(take(w->watch));
	timer_free(take(w->pause));
	jobs_run(j, close_it, free, w);
}

/* A socket that gets what the program passes. */
static struct err *open_socket(const char *link, struct packet_wait **ret)
{
	const struct sock_fprog filter = { ARRAY_LEN(program), program };
	autoclose fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_ll at = { .sll_family = AF_PACKET,
				  .sll_protocol = htons(ETH_P_ALL),
				  .sll_ifindex = (int)if_nametoindex(link) };

	if (fd < 0 || !at.sll_ifindex ||
	    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)) < 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return err_sys(errno, "look for packets on %s", link);
	*ret = xnew(struct packet_wait);
	(*ret)->fd = take_fd(fd);
	return NULL;
}

struct err *packet_wait_new(struct loop *l, const char *link, void (*fn)(void *arg), void *arg,
			    struct packet_wait **ret)
{
	struct packet_wait *w;
	struct err *e = open_socket(link, &w);

	if (e)
		return e;
	w->fn = fn;
	w->arg = arg;
	w->watch = watch_new(l, w->fd, on_packet, w);
	watch_want(w->watch, WATCH_READ);
	*ret = w;
	return NULL;
}

struct err *packet_wait_each(struct loop *l, const char *link,
			     void (*fn)(void *arg, const struct ip *to), void *arg,
			     struct packet_wait **ret)
{
	const int room = QUEUE_BYTES;
	struct packet_wait *w;
	struct err *e = open_socket(link, &w);

	if (e)
		return e;
	/* Without it the queue is as long as others are. */
	(void)setsockopt(w->fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	w->fn_each = fn;
	w->arg = arg;
	w->pause = timer_new(l, on_pause_over, w);
	w->watch = watch_new(l, w->fd, on_packets, w);
	watch_want(w->watch, WATCH_READ);
	*ret = w;
	return NULL;
}
