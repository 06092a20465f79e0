"""Every file is written whole or not at all, where a link points, with the rights the user asked for."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from softwright.errors import FileFormatError, FileNotWritten
from softwright.fileformat import write_atomically, write_folder

posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes, modes and locks of POSIX")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_bytes_and_writers(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomically(path, b"one")
    assert path.read_bytes() == b"one"
    write_atomically(str(path), lambda stream: stream.write(b"two"))
    assert path.read_bytes() == b"two"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), ValueError()])
def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def half(stream: BinaryIO) -> None:
        stream.write(b"ne")
        raise error

    with pytest.raises(FileNotWritten if isinstance(error, OSError) else type(error)) as caught:
        write_atomically(path, half)
    if isinstance(error, OSError):
        assert str(path) in str(caught.value) and "No space left" in str(caught.value)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_the_fault_of_another_file_is_not_taken_for_ours(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="source"):
        write_atomically(tmp_path / "a", lambda stream: (tmp_path / "source").read_bytes())
    assert names(tmp_path) == []


@posix
def test_new_files_obey_the_umask_and_old_ones_keep_their_mode(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "private", b"")
        os.umask(0o002)
        write_atomically(tmp_path / "shared", b"")
        (tmp_path / "old").write_bytes(b"")
        (tmp_path / "old").chmod(0o600)
        write_atomically(tmp_path / "old", b"new")
    finally:
        os.umask(before)
    assert [mode(tmp_path / name) for name in ("private", "shared", "old")] == [0o600, 0o664, 0o600]


@posix
def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere/file")
    (tmp_path / "second").symlink_to("link")
    for content in (b"first", b"second"):  # a link to nothing yet, then to a file
        write_atomically(tmp_path / "second", content)
        assert (tmp_path / "elsewhere" / "file").read_bytes() == content
    assert (tmp_path / "link").is_symlink() and (tmp_path / "second").is_symlink()
    assert names(tmp_path / "elsewhere") == ["file"]
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(FileFormatError, match="cannot be written"):
        write_atomically(tmp_path / "loop", b"")


@posix
def test_what_is_no_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    for name in ("pipe", "link", "null"):
        with pytest.raises(FileFormatError, match="give the name of an ordinary file"):
            write_atomically(tmp_path / name, b"x")
    with pytest.raises(FileFormatError, match="is a folder"):
        write_atomically(tmp_path, b"x")
    with pytest.raises(FileFormatError, match="create it first"):
        write_atomically(tmp_path / "absent" / "file", b"x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode) and Path("/dev/null").is_char_device()


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root may write everywhere")
def test_missing_rights_are_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(FileNotWritten, match="rights"):
            write_atomically(tmp_path / "file", b"x")
    finally:
        tmp_path.chmod(0o700)


@posix
def test_strays_of_killed_writers_go_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    killed = (
        "import os, signal, sys\nfrom softwright.fileformat import write_atomically\n"
        "def write(stream):\n    stream.write(b'half'); stream.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_atomically(sys.argv[1], write)\n"
    )
    subprocess.run([sys.executable, "-c", killed, str(path)], check=False)
    assert len(names(tmp_path)) == 1 and names(tmp_path)[0].endswith(".part")
    others = ["a.png.part", "b.png.01234567.part"]  # a user's own, and those of another target
    for name in others:
        (tmp_path / name).write_bytes(b"")

    def write(stream: BinaryIO) -> None:
        stream.write(b"outer")
        write_atomically(path, b"inner")  # while the outer writer is at work
        assert path.read_bytes() == b"inner"

    write_atomically(path, write)
    assert path.read_bytes() == b"outer"
    assert names(tmp_path) == sorted(["a.png", *others])


@posix
def test_a_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_folder(tmp_path / "new", lambda place: (place / "a").write_bytes(b"1"))
    finally:
        os.umask(before)
    assert mode(tmp_path / "new") == 0o750 and names(tmp_path / "new") == ["a"]
    with pytest.raises(FileFormatError, match="exists already"):
        write_folder(tmp_path / "new", lambda place: None)

    def half(place: Path) -> None:
        (place / "a").write_bytes(b"1")
        assert not (tmp_path / "other").exists()
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(FileNotWritten, match=r"other.*No space"):
        write_folder(tmp_path / "other", half)
    (tmp_path / "third.01234567.part").mkdir()
    (tmp_path / "third.01234567.part" / "left").write_bytes(b"")
    write_folder(tmp_path / "third", lambda place: None)
    assert names(tmp_path) == ["new", "third"]
