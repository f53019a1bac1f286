// SPDX-License-Identifier: Apache-2.0

// Drives the published Go client, unmodified, against a server: goclient -pool NAME [-api-url URL | -gateway NAME]. Without
// either it takes the client's own way through a tunnel. The last line says how the claim was called.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"sigs.k8s.io/agent-sandbox/clients/go/sandbox"
)

func check(good bool, format string, args ...any) {
	if !good {
		log.Fatalf(format, args...)
	}
}

func commands(ctx context.Context, box *sandbox.Sandbox) {
	r, err := box.Run(ctx, "echo 'Hello from the sandbox!'")
	check(err == nil && r.Stdout == "Hello from the sandbox!\n" && r.ExitCode == 0, "run: %+v %v", r, err)
	r, err = box.Run(ctx, "sh -c 'echo out; echo err >&2; exit 3'")
	check(err == nil && r.Stdout == "out\n" && r.Stderr == "err\n" && r.ExitCode == 3, "exit code: %+v %v", r, err)
}

func files(ctx context.Context, box *sandbox.Sandbox) {
	want := bytes.Repeat([]byte("bytes \x00 here\n"), 100000)
	check(box.Write(ctx, "a b+c.txt", want) == nil, "write")
	got, err := box.Read(ctx, "a b+c.txt")
	check(err == nil && bytes.Equal(got, want), "read: %d bytes, %v", len(got), err)

	there, err := box.Exists(ctx, "a b+c.txt")
	check(err == nil && there, "exists: %v %v", there, err)
	there, err = box.Exists(ctx, "nothing")
	check(err == nil && !there, "does not exist: %v %v", there, err)

	listed, err := box.List(ctx, ".") // asks for /list/%2E, and follows no redirect
	check(err == nil, "list: %v", err)
	found := false
	for _, e := range listed {
		found = found || (e.Name == "a b+c.txt" && e.Size == int64(len(want)) && e.Type == sandbox.FileTypeFile)
	}
	check(found, "list: %+v", listed)

	var refused *sandbox.HTTPError
	_, err = box.Read(ctx, "../../etc/passwd")
	check(errors.As(err, &refused) && refused.StatusCode == 403, "read outside: %v", err)
	_, err = box.Read(ctx, "nothing")
	check(errors.As(err, &refused) && refused.StatusCode == 404, "read nothing: %v", err)
}

// The claim is kept by Disconnect, found again by its name, and gone after Close.
func life(ctx context.Context, client *sandbox.Client, box *sandbox.Sandbox, namespace string) {
	claim := box.ClaimName()
	check(box.SandboxName() != "" && box.PodName() == box.SandboxName() && box.PodIP() != "", "identity: %q %q %q",
		box.SandboxName(), box.PodName(), box.PodIP())
	check(box.Disconnect(ctx) == nil && !box.IsReady(), "disconnect")
	again, err := client.GetSandbox(ctx, claim, namespace)
	check(err == nil && again.SandboxName() == box.SandboxName(), "attach again: %v", err)
	r, err := again.Run(ctx, "cat 'a b+c.txt'", sandbox.WithMaxAttempts(2))
	check(err == nil && len(r.Stdout) == 1300000, "the same sandbox: %v", err)
	all, err := client.ListAllSandboxes(ctx, namespace)
	check(err == nil && len(all) > 0, "list all: %v %v", all, err)
	check(client.DeleteSandbox(ctx, claim, namespace) == nil, "delete")
	check(!again.IsReady(), "is ready after its deletion")
}

func main() {
	pool := flag.String("pool", "", "name of the SandboxWarmPool")
	namespace := flag.String("namespace", "default", "of the pool and the claim")
	url := flag.String("api-url", "", "of the router")
	gateway := flag.String("gateway", "", "name of the Gateway")
	flag.Parse()

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	client, err := sandbox.NewClient(ctx, sandbox.Options{Namespace: *namespace, APIURL: *url, GatewayName: *gateway, Quiet: true})
	check(err == nil, "client: %v", err)
	began := time.Now()
	box, err := client.CreateSandbox(ctx, *pool, *namespace)
	check(err == nil, "create: %v", err)
	claim := box.ClaimName()
	commands(ctx, box)
	fmt.Printf("create to the first outputs: %.1f ms\n", float64(time.Since(began).Microseconds())/1000)
	files(ctx, box)
	life(ctx, client, box, *namespace)
	fmt.Println(claim)
}
