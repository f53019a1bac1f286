/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

/*
 * An intrusive doubly linked list. An element is in at most one list. After list_init(), list_del()
 * is allowed on an element that is in no list.
 */
struct list {
	struct list *prev, *next;
};
#define LIST_HEAD(name) struct list name = { &(name), &(name) }

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}
static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}
static inline void list_add_tail(struct list *head, struct list *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}
static inline void list_add_head(struct list *head, struct list *l)
{
	list_add_tail(head->next, l);
}
static inline void list_del(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}
/* Moves all elements of one list to another, which is empty. */
static inline void list_take_all(struct list *from, struct list *to)
{
	list_add_head(from, to);
	list_del(from);
}
#define list_item(l, type, member)  container_of(l, type, member)
#define list_first(h, type, member) list_item((h)->next, type, member)
#define list_each(it, head, member)                                                              \
	for ((it) = list_item((head)->next, __typeof__(*(it)), member); &(it)->member != (head); \
	     (it) = list_item((it)->member.next, __typeof__(*(it)), member))
/* The body may remove (and free) the current element. */
#define list_each_safe(it, tmp, head, member)                                \
	for ((it) = list_item((head)->next, __typeof__(*(it)), member),      \
	    (tmp) = list_item((it)->member.next, __typeof__(*(it)), member); \
	     &(it)->member != (head);                                        \
	     (it) = (tmp), (tmp) = list_item((it)->member.next, __typeof__(*(it)), member))
