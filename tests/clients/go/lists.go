// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientfeatures "k8s.io/client-go/features"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
)

// list reads all pages at one version of the collection.
func list(ctx context.Context, maps typedcore.ConfigMapInterface, limit int64) {
	seen := map[string]int{}
	at, more, n := "", "", 0
	for {
		page, err := maps.List(ctx, metav1.ListOptions{Limit: limit, Continue: more})
		ok(err, "list")
		check(at == "" || page.ResourceVersion == at, "a page of another version: %s after %s", page.ResourceVersion, at)
		check(int64(len(page.Items)) <= limit, "a page of %d", len(page.Items))
		at, n = page.ResourceVersion, n+1
		for i := range page.Items {
			seen[page.Items[i].Name]++
		}
		more = page.Continue
		if more == "" {
			break
		}
	}
	stays := 0
	for name, times := range seen {
		check(times == 1, "%s is listed %d times", name, times)
		if !strings.Contains(name, "-goes-") && strings.HasPrefix(name, "stays-") {
			stays++
		}
	}
	check(stays == objects && n > 10, "%d of %d objects in %d pages", stays, objects, n)
}

// requests notes in which way an informer begins.
type requests struct {
	lists, initial atomic.Bool
	next           http.RoundTripper
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	r.next = next
	return r
}

func (r *requests) RoundTrip(req *http.Request) (*http.Response, error) {
	q := req.URL.Query()
	if q.Get("watch") == "" {
		r.lists.Store(true)
	}
	if q.Get("sendInitialEvents") == "true" {
		r.initial.Store(true)
	}
	return r.next.RoundTrip(req)
}

// gates are client-go's own, but for one.
type gates struct {
	clientfeatures.Gates
	watchList bool
}

func (g gates) Enabled(key clientfeatures.Feature) bool {
	if key == clientfeatures.WatchListClient {
		return g.watchList
	}
	return g.Gates.Enabled(key)
}

func setWatchList(on bool) {
	clientfeatures.ReplaceFeatureGates(gates{clientfeatures.FeatureGates(), on})
}
