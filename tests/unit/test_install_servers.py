"""`scripts/servers.py`: what is missing is told with the way to get it, installed only by root, and tried once."""

import os
import shutil
from pathlib import Path

import pytest

from scripts import servers

THERE = "env"
ABSENT = "no-such-program-of-fyke"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """What would have been installed; nothing is."""
    asked: list[list[str]] = []
    monkeypatch.setattr(servers, "ROOT", tmp_path)
    monkeypatch.setattr(servers, "TRIED", tmp_path / "tried")
    monkeypatch.setattr(servers, "PACKAGES", {"there": (THERE,), "absent": (THERE, ABSENT)})
    monkeypatch.setattr(servers, "install", asked.append)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None if name == ABSENT else f"/bin/{name}")
    return asked


def test_root_installs_what_is_missing_once(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert servers.main() == 0
    assert servers.main() == 0
    assert asked == [["absent"]]
    assert "Not on this machine: absent" in capsys.readouterr().err


def test_who_is_not_root_is_told_what_to_type(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert servers.main() == 0
    assert asked == []
    assert "sudo apt-get install absent" in capsys.readouterr().err


def test_nothing_is_said_where_all_is_there(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(servers, "PACKAGES", {"there": (THERE,)})
    assert servers.main() == 0
    assert capsys.readouterr() == ("", "")
    assert asked == []


def test_no_service_starts_while_packages_are_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(servers, "POLICY", policy)
    with servers.no_services():
        assert "exit 101" in policy.read_text()
        assert os.access(policy, os.X_OK)
    assert not policy.exists()
    policy.write_text("the machine's own")
    with servers.no_services():
        assert policy.read_text() == "the machine's own"
    assert policy.exists()
