# SPDX-License-Identifier: Apache-2.0
"""The page of one sandbox: its terminal, files, log, ports, events and usage, as somebody works with them."""

import hashlib
import os
import re

import pytest

from cay_local import wait_until
from page_kit import expect, token_for
from world import SANDBOXES, event, sandbox

BOX = "sandboxes/default/box"


@pytest.fixture(scope="module")
def cay(cay):
    sandbox(cay, "box", "sh", "-c", "mkdir -p /tmp/web; echo served > /tmp/web/index.html; echo first line; echo second line; cd /tmp/web; exec python3 -m http.server 8000",
            ports=[{"name": "http", "containerPort": 8000}])
    return cay


def inside(cay, *argv):
    return cay.kubectl("exec", "box", "--", *argv).stdout


@pytest.fixture
def me(visitor):
    return visitor


def terminal(me):
    expect(me.page.get_by_text("Connected", exact=True)).to_be_visible()
    me.page.get_by_role("textbox", name=re.compile("Terminal")).focus()
    return me.page.locator(".xterm-rows")


def test_what_it_is(cay, me):
    me.go(BOX).heading(re.compile("^box"))
    for text in ("About it", "Conditions", "Sessions in it", "8000"):
        me.see(text)
    me.shot("sandbox").axe()


def test_a_terminal_is_found_again(cay, me):
    me.go(f"{BOX}?tab=terminal")
    screen = terminal(me)
    me.page.keyboard.type("echo $((40+2))-is-it; mine=kept\n")
    expect(screen).to_contain_text("42-is-it")
    me.page.keyboard.type("stty size; echo size-$?\n")
    expect(screen).to_contain_text("size-0")
    me.page.get_by_role("tab", name="Logs").click()
    me.page.get_by_role("tab", name="Terminal").click()
    screen = terminal(me)
    expect(screen).to_contain_text("42-is-it")
    me.page.keyboard.type("echo still-$mine\n")
    expect(screen).to_contain_text("still-kept")
    me.shot("sandbox-terminal")
    me.page.keyboard.type("exit 7\n")
    me.see("The shell has ended with exit code 7")
    me.button("Start a new shell").click()
    screen = terminal(me)
    me.page.keyboard.type("echo new-$((1+1))\n")
    expect(screen).to_contain_text("new-2")


def test_a_terminal_takes_much_output(cay, me):
    me.go(f"{BOX}?tab=terminal")
    screen = terminal(me)
    me.page.keyboard.type("seq 1 200000; echo over-$((20+3))\n")
    expect(screen).to_contain_text("over-23", timeout=60_000)


def test_files_come_and_go(cay, me, tmp_path):
    me.go(f"{BOX}?tab=files&path=/tmp")
    me.button("New folder").click()
    me.page.get_by_role("dialog").get_by_label("Name").fill("work here")
    me.page.get_by_role("dialog").get_by_role("button", name="Create").click()
    me.page.get_by_role("link", name="work here").click()
    me.see("This folder is empty")
    data = os.urandom(3_000_000)
    local = tmp_path / "data ü.bin"
    local.write_bytes(data)
    me.page.locator("input[type=file]").first.set_input_files(str(local))
    row = me.row("data ü.bin")
    expect(row).to_be_visible()
    wait_until(lambda: hashlib.sha256(data).hexdigest() in inside(cay, "sh", "-c", "sha256sum '/tmp/work here/'*"))
    with me.page.expect_download() as got:
        me.button("Download data ü.bin").click()
    assert open(got.value.path(), "rb").read() == data
    me.button("New file").click()
    me.page.get_by_role("dialog").get_by_label("Name").fill("note.txt")
    me.page.get_by_role("dialog").get_by_role("button", name="Create").click()
    text = me.page.get_by_label("Content of note.txt")
    if not text.is_visible():
        me.page.get_by_role("link", name="note.txt").click()
    text.fill("line one\nline zwei ü\n")
    me.button("Save").click()
    me.see("Saved.")
    assert inside(cay, "cat", "/tmp/work here/note.txt") == "line one\nline zwei ü\n"
    me.shot("sandbox-file")
    # Somebody else writes to it.
    text.fill("mine\n")
    inside(cay, "sh", "-c", "echo theirs > '/tmp/work here/note.txt'")
    me.button("Save").click()
    dialog = me.page.get_by_role("dialog", name="The file has changed in the meantime")
    expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    assert inside(cay, "cat", "/tmp/work here/note.txt") == "theirs\n"
    me.button("Discard changes").click()
    me.page.get_by_role("dialog", name="Discard your changes?").get_by_role("button", name="Discard changes").click()
    expect(me.page.get_by_text("Not saved yet")).to_have_count(0)
    me.go(f"{BOX}?tab=files&path=/tmp/work here")
    me.button("Rename data ü.bin").click()
    me.page.get_by_role("dialog").get_by_label("Name").fill("moved.bin")
    me.page.get_by_role("dialog").get_by_role("button", name="Rename").click()
    expect(me.row("moved.bin")).to_be_visible()
    me.button("Delete moved.bin").click()
    me.page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(me.row("moved.bin")).to_have_count(0)
    assert "moved.bin" not in inside(cay, "ls", "/tmp/work here")
    me.shot("sandbox-files")


def test_a_new_file_takes_no_other_ones_place(cay, me):
    inside(cay, "mkdir", "/tmp/new")
    me.go(f"{BOX}?tab=files&path=/tmp/new")
    me.see("This folder is empty")
    inside(cay, "sh", "-c", ": >/tmp/new/mark; chmod 604 /tmp/new/mark; stat -c %i /tmp/new/mark >/tmp/mark-was")
    me.button("New file").click()
    me.page.get_by_role("dialog").get_by_label("Name").fill("mark")
    me.page.get_by_role("dialog").get_by_role("button", name="Create").click()
    expect(me.page.get_by_role("region", name="Notices").get_by_role("alert")).to_be_visible()
    assert inside(cay, "stat", "-c", "%i", "/tmp/new/mark") == inside(cay, "cat", "/tmp/mark-was")


def test_a_search_stays_in_its_tab(cay, me):
    me.go(f"{BOX}?tab=files&path=/tmp&q=nothing-like-it&by=-name")
    expect(me.page.get_by_label("Find", exact=True)).to_have_value("nothing-like-it")
    me.page.get_by_role("tab", name="Events").click()
    expect(me.page.get_by_role("tab", name="Events")).to_have_attribute("aria-selected", "true")
    assert "q=" not in me.page.url and "by=" not in me.page.url and "tab=events" in me.page.url


def test_its_log(cay, me):
    me.go(f"{BOX}?tab=logs")
    log = me.page.get_by_role("region", name="Log", exact=True)
    expect(log).to_contain_text("first line")
    cay.route("box", "GET", "/asked-for", port=8000)
    expect(log).to_contain_text("/asked-for")
    me.page.get_by_label("Find in the log").fill("second")
    me.page.keyboard.press("Enter")
    me.see("1 of 1")
    with me.page.expect_download() as got:
        me.button("Download").click()
    saved = open(got.value.path()).read()
    assert saved.index("first line\n") < saved.index("second line\n") < saved.index("/asked-for")
    me.shot("sandbox-log")


# The box gets smaller in the very frame in which a line came: what the page scrolled by then is no longer the end.
SHRINK = """() => new Promise((done) => {
    const box = document.querySelector(".log");
    new MutationObserver((_, me) => {
        me.disconnect();
        box.style.height = `${box.clientHeight - 100}px`;
        box.style.flex = "none";
        requestAnimationFrame(() => requestAnimationFrame(done));
    }).observe(box, { subtree: true, childList: true, attributes: true });
})"""


def test_its_log_is_followed_until_somebody_scrolls(cay, me):
    sandbox(cay, "talker", "sh", "-c", "n=0; while n=$((n+1)); do echo line $n; [ $n -lt 200 ] || sleep .2; done")
    me.go("sandboxes/default/talker?tab=logs")
    log, follow = me.page.get_by_role("region", name="Log", exact=True), me.page.get_by_label("Follow the end")

    def last():
        return max((int(n) for n in re.findall(r"line (\d+)", log.inner_text())), default=0)
    wait_until(lambda: last() > 200)
    me.page.evaluate(SHRINK)
    now = last()
    wait_until(lambda: last() > now + 10)
    expect(follow).to_be_checked()
    log.hover()
    me.page.mouse.wheel(0, -2000)
    expect(follow).not_to_be_checked()
    stays = log.evaluate("(e) => e.scrollTop")
    foot = me.page.locator(".log-foot")
    count = foot.inner_text()
    expect(foot).not_to_have_text(count)
    assert log.evaluate("(e) => e.scrollTop") == stays
    follow.check()
    wait_until(lambda: last() > now + 10)
    cay.api("DELETE", f"{SANDBOXES}/talker")


def test_its_ports(cay, me):
    me.go(f"{BOX}?tab=ports")
    row = me.page.get_by_role("row").filter(has_text="8000")
    expect(row).to_contain_text("yes")
    with me.context.expect_page() as opened:
        me.button("Open port 8000").click()
    theirs = opened.value
    expect(theirs.locator("body")).to_contain_text("served")
    assert theirs.evaluate("() => window.opener") is None and f":{cay.port}" not in theirs.url
    me.see("Whoever has this URL can use the port").shot("sandbox-ports")
    # The window got nothing of the tab's own storage, where the token is.
    theirs.goto(f"{me.base}/ui/")
    expect(theirs.get_by_role("heading", name="Log in to Cay")).to_be_visible()


def test_its_events(cay, me):
    me.go(f"{BOX}?tab=events")
    event(cay, "made-up", "box", "Noted", "somebody noted this", type="Warning")
    me.see("somebody noted this").see("Warning")
    me.shot("sandbox-events")


def test_its_usage(cay, me):
    me.go(f"{BOX}?tab=usage")
    expect(me.page.get_by_role("img", name=re.compile("CPU"))).to_be_visible(timeout=60_000)
    me.see("CPU time").see("Since its Pod was started").shot("sandbox-usage")


def test_asleep_and_awake(cay, me):
    me.go(f"{BOX}?tab=terminal")
    me.button("Suspend").click()
    expect(me.page.locator("h1")).to_contain_text("Suspended")
    me.button("Resume").first.click()
    expect(me.page.locator("h1")).to_contain_text("Ready")
    screen = terminal(me)
    me.page.keyboard.type("echo awake-$((40+2))\n")
    expect(screen).to_contain_text("awake-42")


def test_who_may_look_may_not_type(cay, visit):
    me = visit(cay).log_in_by_token(token_for(cay, "looker", "view")).go(f"{BOX}?tab=terminal")
    me.see("You may not run commands in this sandbox").see("create on pods/exec")
    expect(me.button("Delete…")).to_be_disabled()


def test_one_that_goes_away(cay, me):
    sandbox(cay, "passing", mode="Suspended")
    me.go("sandboxes/default/passing").heading(re.compile("passing"))
    cay.api("DELETE", f"{SANDBOXES}/passing")
    me.see("passing has been deleted")
    me.go("sandboxes/default/never").see("There is no sandbox or claim named never")
