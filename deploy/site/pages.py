"""The pages of the site: Markdown of the repository, as the site has it."""

import posixpath
import re
from pathlib import Path

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#:\s]*)(#[^)\s]+)?\)")
HEADING = re.compile(r"^(#+) (.*)$")
ITEM = re.compile(r"(?:\d+\.|[-*]) +")
FENCE = re.compile(r"^ *```")
BLOCK = re.compile(r"(?ms)(^ *```.*?^ *```$)")
ROW = re.compile(r"^\|.*\|$")


def place(path: str) -> str:
    """Returns where the site has a page of the repository: docs/ is its root."""
    if path == "README.md":
        return "readme.md"
    path = path.removeprefix("docs/")
    folder, name = posixpath.split(path)
    return posixpath.join(folder, "index.md") if name == "README.md" else path


def collect(root: Path) -> dict[str, str]:
    """Returns the text of all pages to which links lead from docs/README.md, by their path."""
    found: dict[str, str] = {}
    waiting = ["docs/README.md"]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = (root / path).read_text(encoding="utf-8")
        for link in LINK.finditer(BLOCK.sub("", found[path])):
            target = joined(path, link[3])
            if target.endswith(".md") and (root / target).is_file():
                waiting.append(target)
    return found


def joined(path: str, target: str) -> str:
    """Returns the path of a link's target in the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path


def sections(readme: str) -> list[tuple[str, list[str]]]:
    """Returns the tables of docs/README.md: the head of each, and the pages to which its rows link."""
    found: list[tuple[str, list[str]]] = []
    before = ""
    for line in readme.split("\n"):
        if ROW.match(line) and not ROW.match(before):
            found.append((line.strip("| ").split(" |")[0].strip(), []))
        elif ROW.match(line):
            for link in LINK.finditer(line):
                path = joined("docs/README.md", link[3])
                if path.endswith(".md") and path not in found[-1][1]:
                    found[-1][1].append(path)
        before = line
    return found


def title(text: str) -> str:
    """Returns the first heading of a page."""
    return next((h[2].replace("`", "") for line in text.split("\n") if (h := HEADING.match(line))), "")


def summary(text: str) -> str:
    """Returns the first sentence of a page, without its links; empty if it begins with something else."""
    for paragraph in re.split(r"\n\s*\n", BLOCK.sub("", text)):
        if re.match(r"[A-Z*`\[]", paragraph) and not ITEM.match(paragraph):
            plain = LINK.sub(lambda link: link[2], " ".join(paragraph.split()))
            return re.split(r"(?<=\.)\s", plain)[0].rstrip(":")
    return ""


def published(text: str, path: str, places: dict[str, str], source: str) -> tuple[str, set[str]]:
    """Returns a page with the links of the site, and the files of docs/ that it shows or links to.

    Links to these and to pages lead to where the site has them; links to other files lead below the address
    source, and are text where that is empty.
    """
    files: set[str] = set()
    here = posixpath.dirname(place(path))

    def link(found: re.Match[str]) -> str:
        shown, text, target, anchor = found[1], found[2], found[3], found[4] or ""
        if not target:
            return found[0]
        full = joined(path, target)
        if full in places:
            return f"{shown}[{text}]({posixpath.relpath(places[full], here or '.')}{anchor})"
        if shown or full.startswith("docs/") and posixpath.splitext(full)[1]:
            files.add(full)
            return f"{shown}[{text}]({posixpath.relpath(place(full), here or '.')})"
        return f"[{text}]({source.rstrip('/')}/{full}{anchor})" if source else text

    parts = BLOCK.split(text)  # every other one is code
    parts[::2] = [LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts), files


def slug(heading: str) -> str:
    """Returns the anchor of a heading, as the links in the repository have it."""
    return re.sub(r"[^\w\- ]|\]\([^)]*\)", "", heading.strip().lower()).replace(" ", "-")


def rendered(text: str) -> str:
    """Returns a page as Python-Markdown has to get it.

    It makes other anchors than those of the links, wants four columns before what belongs to an item of a list,
    and an empty line before a list or a table.
    """
    lines: list[str] = []
    seen: dict[str, int] = {}
    fenced, width = (
        False,
        0,
    )  # width: columns of the marker of the item whose lines these are, 0 outside of lists
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        if not fenced and (item := ITEM.match(line)):
            if before.strip() and (width == 0 or FENCE.match(before)):
                lines.append("")
            width = len(item[0])
        elif width and line.startswith(" " * width):
            line = "    " + line[width:]
        elif width and line.strip() and not before.strip() and not fenced:
            width = 0
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced and (heading := HEADING.match(line)):
            anchor = slug(heading[2])
            seen[anchor] = seen.get(anchor, -1) + 1
            line += f" {{#{anchor}{f'-{seen[anchor]}' if seen[anchor] else ''}}}"
        elif not fenced and ROW.match(line) and before.strip() and not ROW.match(before):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)
