// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const done = "clients.test/done"

// copier keeps a Secret for each ConfigMap that is marked, with its data, and a finalizer until that is gone.
type copier struct{ client.Client }

func (r copier) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var cm core.ConfigMap
	if err := r.Get(ctx, req.NamespacedName, &cm); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if cm.Labels["copy"] == "" {
		return ctrl.Result{}, nil
	}
	if !cm.DeletionTimestamp.IsZero() {
		controllerutil.RemoveFinalizer(&cm, done)
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, &cm))
	}
	if controllerutil.AddFinalizer(&cm, done) {
		return ctrl.Result{}, r.Update(ctx, &cm)
	}
	secret := &core.Secret{ObjectMeta: metav1.ObjectMeta{Name: cm.Name, Namespace: cm.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, secret, func() error {
		secret.StringData = cm.Data
		return controllerutil.SetControllerReference(&cm, secret, r.Scheme())
	})
	return ctrl.Result{}, err
}

func newManager(config *rest.Config, ns string) ctrl.Manager {
	m, err := ctrl.NewManager(config, ctrl.Options{
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{ns: {}}},
		Metrics:                       server.Options{BindAddress: "0"},
		LeaderElection:                true,
		LeaderElectionID:              "copier",
		LeaderElectionNamespace:       ns,
		LeaderElectionReleaseOnCancel: true,
	})
	ok(err, "manager")
	skip := true // two managers of one program have a controller of the same name
	ok(ctrl.NewControllerManagedBy(m).For(&core.ConfigMap{}).Owns(&core.Secret{}).
		WithOptions(controller.Options{SkipNameValidation: &skip}).Complete(copier{m.GetClient()}), "controller")
	return m
}

func await(ctx context.Context, what string, good func() bool) {
	for !good() {
		check(ctx.Err() == nil, "%s: does not come", what)
		time.Sleep(20 * time.Millisecond)
	}
}

// manage runs two managers: one leads, the other follows when it leaves, and the work goes on.
func manage(ctx context.Context, config *rest.Config) {
	log.SetLogger(zap.New())
	ns := namespace(ctx, kubernetes.NewForConfigOrDie(config), "manager")
	c, err := client.New(config, client.Options{})
	ok(err, "client")
	first, leave := context.WithCancel(ctx)
	one, two := newManager(config, ns), newManager(config, ns)
	over := make(chan error, 2)
	go func() { over <- one.Start(first) }()
	<-one.Elected()
	go func() { over <- two.Start(ctx) }()

	copied(ctx, c, ns, "one")
	var lease coordination.Lease
	ok(c.Get(ctx, client.ObjectKey{Namespace: ns, Name: "copier"}, &lease), "lease")
	leader := *lease.Spec.HolderIdentity
	leave()
	ok(<-over, "the first manager's end")
	<-two.Elected()
	ok(c.Get(ctx, client.ObjectKey{Namespace: ns, Name: "copier"}, &lease), "lease")
	check(*lease.Spec.HolderIdentity != leader && *lease.Spec.HolderIdentity != "", "the lease is still held by %s", leader)
	copied(ctx, c, ns, "two")

	box := sandbox("box")
	box.SetNamespace(ns)
	ok(c.Create(ctx, box), "create a Sandbox")
	await(ctx, "the Sandbox is ready", func() bool {
		ok(c.Get(ctx, client.ObjectKeyFromObject(box), box), "get the Sandbox")
		conditions, _, _ := unstructured.NestedSlice(box.Object, "status", "conditions")
		for _, each := range conditions {
			if m := each.(map[string]any); m["type"] == "Ready" && m["status"] == "True" {
				return true
			}
		}
		return false
	})
	ok(c.Delete(ctx, box, client.PropagationPolicy(metav1.DeletePropagationForeground)), "delete the Sandbox")
	await(ctx, "the Sandbox goes", func() bool { return errors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(box), box)) })
}

// copied makes a ConfigMap, changes it and deletes it; the controller follows each time.
func copied(ctx context.Context, c client.Client, ns, name string) {
	cm := configMap(name, map[string]string{"a": "1"})
	cm.Namespace, cm.Labels["copy"] = ns, "yes"
	ok(c.Create(ctx, cm), "create")
	var secret core.Secret
	key := client.ObjectKey{Namespace: ns, Name: name}
	for i := range 3 {
		want := fmt.Sprint(i)
		ok(c.Patch(ctx, cm, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"a":"`+want+`"}}`))), "patch")
		await(ctx, "the copy", func() bool { return c.Get(ctx, key, &secret) == nil && string(secret.Data["a"]) == want })
	}
	ok(c.Delete(ctx, cm), "delete")
	await(ctx, "its end", func() bool { return errors.IsNotFound(c.Get(ctx, key, cm)) })
	await(ctx, "the end of the copy", func() bool { return errors.IsNotFound(c.Get(ctx, key, &secret)) })
}
