# SPDX-License-Identifier: Apache-2.0
"""tools/build-page: the page becomes a table of C, and where it cannot be built one line says why."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from cay_local import ROOT

EMPTY = "page_embedded = { NULL, 0 };"


@pytest.fixture
def tree(tmp_path):
    """A copy of what the program reads, without the packages."""
    shutil.copytree(os.path.join(ROOT, "ui"), tmp_path / "ui", ignore=shutil.ignore_patterns("node_modules"))
    (tmp_path / "tools").mkdir()
    shutil.copy(os.path.join(ROOT, "tools", "build-page"), tmp_path / "tools")
    return tmp_path


@pytest.fixture
def installed(tree):
    modules = os.path.join(ROOT, "ui", "node_modules")
    if not shutil.which("node") or not os.path.isdir(modules):
        pytest.skip("this build has no page: it needs Node.js and npm")
    os.symlink(modules, tree / "ui" / "node_modules")
    return tree


def build(tree, *flags, **env):
    done = subprocess.run([sys.executable, tree / "tools" / "build-page", "--out", tree / "out", "--table", tree / "table.c", "--depfile", tree / "table.d", *flags],
                          capture_output=True, text=True, timeout=300, env={**os.environ, **env}, cwd=tree)
    return done, (tree / "table.c").read_text() if (tree / "table.c").exists() else None


def without_node(tree):
    """A PATH on which nothing is found."""
    (tree / "bin").mkdir()
    return str(tree / "bin")


def test_without_node_the_page_is_left_out_in_one_line(tree):
    path = without_node(tree)
    done, table = build(tree, PATH=path)
    assert done.returncode == 0 and EMPTY in table
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("the page is left out: there is no node") and "build again" in done.stderr
    missing = (tree / "table.d").read_text().split(": ")[1].strip()
    assert not os.path.exists(missing), "the next build must try again"
    (tree / "table.c").unlink()
    done, table = build(tree, "--page", "enabled", PATH=path)
    assert done.returncode == 1 and table is None
    done, table = build(tree, "--page", "disabled", PATH=path)
    assert (done.returncode, done.stderr) == (0, "") and EMPTY in table


def test_without_the_registry_it_is_left_out_in_one_line(tree):
    if not shutil.which("npm"):
        pytest.skip("there is no npm")
    done, table = build(tree, npm_config_registry="http://127.0.0.1:1", npm_config_cache=str(tree / "cache"))
    assert done.returncode == 0 and EMPTY in table and not (tree / "out").exists()
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("the page is left out: npm ci: ") and "registry" in done.stderr


def assets(tree):
    return set(os.listdir(tree / "out" / "assets"))


def test_what_changes_gets_another_name(installed):
    done, first = build(installed)
    assert done.returncode == 0 and not done.stderr and EMPTY not in first
    before = assets(installed)
    assert all(re.search(r"-[0-9A-Z]{8}\.\w+$", name) for name in before)
    assert build(installed)[1] == first, "the same tree makes the same table"
    entry = next(iter(re.findall(r'<script[^>]* src="([^"]+)"', (installed / "ui" / "index.html").read_text())))
    with open(installed / "ui" / entry, "a") as f:
        f.write('\nconsole.info("changed");\n')
    done, second = build(installed)
    assert second != first and assets(installed) != before
    index = (installed / "out" / "index.html").read_text()
    named = set(re.findall(r'"/ui/assets/([^"]+)"', index))
    assert named and named <= assets(installed)
    assert str(installed / "ui" / entry) in (installed / "table.d").read_text()
    assert "sourceMappingURL" not in "".join(p.read_text(errors="replace") for p in (installed / "out" / "assets").glob("*.js"))
    assert not re.search(r"<script(?![^>]* src=)", index), "the policy runs nothing inline"


def test_the_lock_file_names_no_registry():
    text = open(os.path.join(ROOT, "ui", "package-lock.json")).read()
    assert '"resolved"' not in text and "http" not in re.sub(r'"url": "[^"]*"', "", text)


def test_the_terms_of_packages_go_along(installed):
    build(installed)
    text = (installed / "out" / "licences.txt").read_text()
    assert "preact" in text and "Permission is hereby granted" in text
