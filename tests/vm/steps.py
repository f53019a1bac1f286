# SPDX-License-Identifier: Apache-2.0
"""The steps, in their order. One that is not a file of pytest is the script of its name in inside/, unless a function here drives it.

A script ends with status 0, or prints "FAIL: reason" and ends with another. A row of pytest passes if at least one of its
tests did and none failed. Time limits are for a machine that is emulated: one is reached by what hangs, not by what is slow.
"""

import re
import typing

REBOOT_WAIT_MAX_S = 60  # systemd gives whatever does not end 90 seconds


class Step(typing.NamedTuple):
    name: str
    limit_s: int
    short: bool = False  # part of the short form
    pytest: tuple = ()  # arguments
    drive: typing.Optional[typing.Callable] = None  # (machine, say) → Outcome


class Outcome(typing.NamedTuple):
    verdict: str  # passed, failed, timed out
    why: str = ""


def tests(name, limit_s, select=None):
    return Step(f"test_{name}", limit_s, pytest=(f"tests/integration/test_{name}.py", *(("-k", select) if select else ())))


def seconds_of(line):
    """The kernel's time in front of a line of the console."""
    stamp = re.match(r"\[\s*(\d+\.\d+)\]", line)
    return float(stamp[1]) if stamp else None


def waited_for_processes(console):
    """Seconds between the end of all units and the restart, and what systemd waited for, as the console has it."""
    began = ended = None
    held = []
    for line in console.splitlines():
        if "systemd-shutdown" in line and began is None:
            began = seconds_of(line)
        if "Waiting for process" in line:
            held.append(line.split("]: ", 1)[-1])
        if "reboot: Restarting system" in line:
            ended = seconds_of(line)
    if began is None or ended is None:
        return None, held
    return ended - began, held


def drive_reboot(machine, say):
    """Times come from the stamps of the kernel and the journal of the machine: its own clock, and not that of its host."""
    before = machine.sh("tests/vm/inside/reboot before", 600, say)
    if before.rc != 0:
        return outcome_of(before)
    waited, held = waited_for_processes(machine.reboot())
    if waited is None:
        return Outcome("failed", "the console does not show how the machine ended")
    say(f"ok: after its units had ended the machine went down within {waited:.0f} s\n")
    if waited > REBOOT_WAIT_MAX_S:
        return Outcome("failed", f"the machine waited {waited:.0f} s at its end: {'; '.join(held) or 'for no process'}")
    return outcome_of(machine.sh(f"tests/vm/inside/reboot after {REBOOT_WAIT_MAX_S}", 900, say))


def outcome_of(done):
    if done.rc == 0:
        return Outcome("passed")
    reasons = "; ".join(re.findall(r"^FAIL: (.*)$", done.text, re.M))
    if done.rc == "timeout":
        return Outcome("timed out", reasons or done.text.strip()[-200:])
    return Outcome("failed", reasons or f"exit {done.rc}: {done.text.strip()[-200:]}")


def outcome_of_pytest(done):
    counts = re.findall(r"^=* ?((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s", done.text, re.M)
    failed = re.findall(r"^(?:FAILED|ERROR) \S+::(\S+)(?: - (.*))?$", done.text, re.M)
    if done.rc == 0 and counts and "passed" in counts[-1]:
        return Outcome("passed", counts[-1])
    if done.rc == "timeout":
        return Outcome("timed out", done.text.strip()[-200:])
    why = "; ".join(f"{name}: {text}"[:200] for name, text in failed[:5])
    return Outcome("failed", f"{counts[-1] if counts else 'nothing ran'}: {why or done.text.strip()[-300:]}")


# Left out: what measures, what waits for its own short deadlines while 100 clients share an emulated processor, and what runs
# Python in runsc, which emulates the system calls of an emulated machine: it takes minutes to start.
STEPS = (
    Step("install", 600, short=True),
    Step("start", 600, short=True),
    Step("doctor", 600),
    Step("readme", 900),
    Step("limits", 900, short=True),
    Step("isolation", 600),
    Step("container", 900),
    Step("restarts", 2400, short=True),
    Step("kill", 600),
    Step("demo", 1800),
    tests("isolation", 2400),
    tests("limits", 900),
    tests("eviction", 900),
    tests("sleep", 2400, "frozen or 100_execs or kill_9 or (other_runtimes and not runsc) or direct_packet"),
    tests("usage", 1200),
    tests("views", 2400, "mount or crash or nothing_of_a_view or group_of_their_attachment or ends_with_what_allowed_it"),
    tests("crash", 1800, "not many"),
    tests("runtimes", 2400, "(limits or memory or kill_9 or deletion or terminal or asked_for or users_volumes or doctor) and not runsc"),
    tests("policy", 1800),
    tests("networks", 1200),
    tests("doctor", 1200),
    tests("features", 1800),
    tests("stop", 2400),
    tests("shutdown", 1800),
    tests("host", 1800),
    Step("census", 600),
    Step("upgrade", 900),
    Step("reboot", 2400, drive=drive_reboot),
    Step("purge", 900),
)
