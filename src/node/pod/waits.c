/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "node/image/image.h"
#include "node/pod/pod_priv.h"

/*
 * What Pods wait for besides slots and networks, which the runtime has lines for. A Pod stands in
 * the list of each sort of thing that it waits for, and is woken by that thing alone: by the object
 * that it names, by its image, or, in the order of arrival, by room that another Pod has left. What
 * it waits for is computed in one place, at the end of each pass.
 */
void waits_init(struct waits *w)
{
	list_init(&w->objects);
	list_init(&w->images);
	list_init(&w->room);
}

void pod_waits_init(struct pod *p)
{
	list_init(&p->for_object);
	list_init(&p->for_image);
	list_init(&p->for_room);
}

static bool any_waits(const struct pod *p, bool (*what)(enum wait_reason why))
{
	for (size_t i = 0; i < p->n_containers && p->phase == POD_ACTIVE; i++)
		if (p->containers[i]->state == CONTAINER_WAITING && what(p->containers[i]->why))
			return true;
	return false;
}

static bool is_object(enum wait_reason why)
{
	return why == WAIT_CONFIG;
}

static bool is_image(enum wait_reason why)
{
	return why == WAIT_IMAGE || why == WAIT_IMAGE_NEVER || why == WAIT_IMAGE_NAME ||
	       why == WAIT_IMAGE_BACKOFF || why == WAIT_IMAGE_MADE;
}

static void stand(struct list *line, struct list *place, bool waits)
{
	if (!waits)
		list_del(place);
	else if (list_empty(place))
		list_add_tail(line, place);
}

static struct pod *first_for_room(const struct pods *ps)
{
	return list_empty(&ps->waits.room) ? NULL
					   : list_first(&ps->waits.room, struct pod, for_room);
}

void waits_room_left(struct pods *ps)
{
	struct pod *p = first_for_room(ps);

	if (p && ps->queue) /* it has gone when all Pods are let go of */
		pod_wake(p);
}

/* What is too little for a large Pod may be enough for the next in line: nobody keeps the others
 * from room that they fit into, however long it waits itself. */
void waits_pass_on_room(struct pod *p)
{
	struct list *next = p->for_room.next;

	if (!list_empty(&p->for_room) && next != &p->pods->waits.room)
		pod_wake(list_item(next, struct pod, for_room));
}

void pod_waits(struct pod *p)
{
	struct waits *w = &p->pods->waits;
	bool was_first = first_for_room(p->pods) == p;

	stand(&w->objects, &p->for_object, p->phase == POD_PREPARING || any_waits(p, is_object));
	stand(&w->images, &p->for_image, any_waits(p, is_image));
	stand(&w->room, &p->for_room, p->phase == POD_ADMITTING || pod_resize_deferred(p));
	if (was_first && list_empty(&p->for_room))
		waits_room_left(p->pods); /* there may be more than it took */
}

void pod_waits_done(struct pod *p)
{
	bool was_first = first_for_room(p->pods) == p;

	list_del(&p->for_object);
	list_del(&p->for_image);
	list_del(&p->for_room);
	if (was_first)
		waits_room_left(p->pods);
}

static bool source_names(const struct pod_volume_source *s, const struct object *o, bool secret)
{
	return s->type == (secret ? POD_VOLUME_SECRET : POD_VOLUME_CONFIG_MAP) &&
	       str_eq(s->object, o->name);
}

static bool volume_names(const struct pod_volume_view *v, const struct object *o)
{
	const char *kind = o->kind->kind;

	if (str_eq(kind, "PersistentVolumeClaim"))
		return v->type == POD_VOLUME_PVC && str_eq(v->pvc, o->name);
	for (size_t i = 0; i < v->n_sources; i++)
		if (source_names(&v->sources[i], o, str_eq(kind, "Secret")))
			return true;
	return false;
}

static bool container_names(const struct pod_container_view *c, const struct object *o)
{
	bool secret = str_eq(o->kind->kind, "Secret");

	for (size_t i = 0; i < c->n_env; i++)
		if (c->env[i].source == (secret ? POD_ENV_SECRET : POD_ENV_CONFIG_MAP) &&
		    str_eq(c->env[i].ref.name, o->name))
			return true;
	for (size_t i = 0; i < c->n_env_from; i++)
		if (c->env_from[i].secret == secret && str_eq(c->env_from[i].name, o->name))
			return true;
	return false;
}

static bool names(const struct pod *p, const struct object *o)
{
	if (!str_eq(p->obj->ns, o->ns))
		return false;
	for (size_t i = 0; i < p->view->n_volumes; i++)
		if (volume_names(&p->view->volumes[i], o))
			return true;
	for (size_t i = 0; i < p->n_containers; i++)
		if (container_names(p->containers[i]->view, o))
			return true;
	return false;
}

void waits_object_changed(struct pods *ps, const struct object *o)
{
	struct pod *p;

	list_each(p, &ps->waits.objects, for_object) {
		if (!names(p, o))
			continue;
		for (size_t i = 0; i < p->n_containers; i++)
			if (is_object(p->containers[i]->why))
				p->containers[i]->backoff_until = 0;
		pod_wake(p);
	}
}

void waits_class_changed(struct pods *ps, const char *name)
{
	struct pod *p;

	list_each(p, &ps->waits.objects, for_object)
		if (str_eq(p->view->runtime_class, name))
			pod_wake(p);
}

static bool image_is_there(const struct pods *ps, const struct container *c)
{
	struct image *found = NULL;
	struct err *e = ps->find_image(ps->images, c->view->image, &found);
	bool there = !e;

	err_free(e);
	image_free(found);
	return there;
}

void pods_images_changed(struct pods *ps)
{
	struct pod *p;

	list_each(p, &ps->waits.images, for_image)
		for (size_t i = 0; i < p->n_containers; i++)
			if (is_image(p->containers[i]->why) &&
			    image_is_there(ps, p->containers[i])) {
				p->containers[i]->backoff_until = 0;
				pod_wake(p);
			}
}
