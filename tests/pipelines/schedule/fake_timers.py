"""Stand-ins for `systemctl` and `crontab` on the PATH: they keep what they are told in files."""

from pathlib import Path

SYSTEMCTL = """#!/bin/sh
echo "$@" >> "$FAKE_TIMERS/systemctl.txt"
case "$*" in *"$(cat "$FAKE_TIMERS/fails" 2>/dev/null || echo nothing)"*) echo "it does not work" >&2; exit 1;; esac
"""
CRONTAB = """#!/bin/sh
case "$1" in
-l) cat "$FAKE_TIMERS/crontab.txt" 2>/dev/null || { echo "no crontab for you" >&2; exit 1; };;
-) cat > "$FAKE_TIMERS/crontab.txt";;
esac
"""


class FakeTimers:
    """A folder with both commands, or one of them, and what they were told."""

    def __init__(self, folder: Path, *, systemctl: bool = True, crontab: bool = True):
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name, text, is_there in (("systemctl", SYSTEMCTL, systemctl), ("crontab", CRONTAB, crontab)):
            if is_there:
                (self.bin / name).write_text(text)
                (self.bin / name).chmod(0o755)

    @property
    def units(self) -> Path:
        """Folder of the user's units."""
        return self.folder / "config" / "systemd" / "user"

    def environment(self) -> dict[str, str]:
        """Returns variables under which these commands and those of their shell stand alone."""
        shell = self.folder / "shell"
        shell.mkdir(exist_ok=True)
        for name in ("cat", "sh"):
            if not (shell / name).exists():
                (shell / name).symlink_to(f"/bin/{name}")
        return {
            "PATH": f"{self.bin}:{shell}",
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "FAKE_TIMERS": str(self.folder),
        }

    def fail(self, words: str) -> None:
        """Has every `systemctl` whose arguments hold these words fail."""
        (self.folder / "fails").write_text(words)

    def calls(self) -> list[str]:
        """Returns the arguments of every `systemctl` since it was last asked."""
        file = self.folder / "systemctl.txt"
        found = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return found

    @property
    def crontab(self) -> Path:
        """The file that `crontab` keeps."""
        return self.folder / "crontab.txt"
