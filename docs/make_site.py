"""Build the documentation site: python docs/make_site.py [FOLDER] [--zoo GROUP ...]. `make docs` does it into out/site.

Everything is made from this repository; nothing is fetched, and the site asks for nothing outside of itself. It opens
from a disk. Links, ids and formulas are checked, and the build fails with a list of what is wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from website.build import build

from softwright.errors import InvalidInput


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path, nargs="?", default=Path("out/site"))
    options.add_argument("--zoo", nargs="*", help="groups of the zoo that the gallery shows; all unless given")
    given = options.parse_args()
    started = time.monotonic()
    try:
        count = build(given.folder, given.zoo)
    except InvalidInput as error:
        sys.exit(str(error))
    print(f"{count} pages in {time.monotonic() - started:.1f} s: open {given.folder / 'index.html'}")


if __name__ == "__main__":
    main()
