# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For the scripts beside it, which run in the machine: what fails says why in a line of its own, which the driver shows.
set -eEuo pipefail
export KUBECONFIG=/var/lib/cay/admin.kubeconfig
# kubectl before 1.34 may lose output over a WebSocket (kubernetes/kubernetes#131189).
export KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false
EXAMPLES=/root/main/examples
DEBS=/root/main/build/vm-debs

# Not from within $(...), whose output is compared with something.
trap 'rc=$?; [ $BASH_SUBSHELL -gt 0 ] || echo "FAIL: ${0##*/}:$LINENO: $BASH_COMMAND: exit $rc"' ERR

fail() { trap - ERR; echo "FAIL: $*"; exit 1; }
ok() { echo "ok: $*"; }

# why COMMAND...: the last line of what a command says that may fail.
why() { { "$@" 2>&1 || :; } | tail -n 1; }

# is WHAT FOUND WANTED
is() { [ "$2" = "$3" ] || fail "$1: $2, and not $3"; }

# wait_until SECONDS WHAT COMMAND...: polls until the command succeeds.
wait_until() {
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || fail "$what: not within the time; $(why "$@")"
		sleep 0.2
	done
}

apt_get() { DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Dpkg::Use-Pty=0 "$@"; }
serves() { cay ls >/dev/null 2>&1; }

# For steps that are not about the start of the service: what an earlier one did to it is not their failure.
up() {
	systemctl start cay
	wait_until 180 'the service' serves
}

warnings() { kubectl get events --no-headers --field-selector type=Warning,reason!=BackOff | tr -s ' ' | cut -c1-250; }

# ready KIND/NAME: waits, and says of a sandbox that does not start what the server says of it.
ready() {
	kubectl wait --for=condition=Ready "$1" --timeout=120s >/dev/null 2>&1 ||
		fail "$1 is not Ready: $(why warnings)"
}

# sandbox NAME [SPEC OF THE CONTAINER...]: one that sleeps for a number of seconds that no other has, so that its process can be found.
sandbox() {
	kubectl apply -f - >/dev/null <<-Y
		apiVersion: agents.x-k8s.io/v1beta1
		kind: Sandbox
		metadata: {name: $1}
		spec: {podTemplate: {spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: host, command: [sleep, "$(number_of "$1")"], ${2:-}}], ${3:-}}}}
	Y
	ready "sandbox/$1"
}

number_of() { echo "77$(printf %s "$1" | cksum | cut -c1-7)"; }
process_of() { pgrep -n -x -f "sleep $(number_of "$1")"; }
group_of() { echo "/sys/fs/cgroup$(cut -d: -f3 "/proc/$(process_of "$1")/cgroup")"; }
gone() { kubectl delete sandbox "$@" --timeout=120s >/dev/null; }
