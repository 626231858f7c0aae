"""Run while an image is built: installs what the programs load from Debian and the base lacks."""  # noqa: INP001

import ctypes
import subprocess
import sys

NEEDED = {"libnftables.so.1": "libnftables1"}


def main() -> int:
    """Install the packages of the libraries that cannot be loaded; the exit code: 0, or that of the last command."""
    missing = []
    for library, package in NEEDED.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            missing.append(package)
    if not missing:
        return 0
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *missing]):
        done = subprocess.run(command, check=False)  # noqa: S603 - fixed words
        if done.returncode != 0:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
