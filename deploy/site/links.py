"""Checks the links of a built site."""

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

MARKDOWN = re.compile(r"\]\(([^)\s]+)\)")


class Page(HTMLParser):
    """The anchors of a page, and what it links to or loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if "src" in values:
            self.loads.append(values["src"])
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preconnect"):
            self.loads.append(values.get("href", ""))
        elif "href" in values:
            self.links.append(values["href"])


def broken(site: Path, made: tuple[str, ...] = ()) -> list[str]:
    """Returns each link of the site that leads nowhere, and each file that it loads from another host.

    Pages below the folders made are those of other programs: what they link to is not checked.
    """
    site = site.resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        if name.parts[0] in made or "/".join(name.parts[:2]) in made or name.name == "404.html":
            continue
        found += [f"{name} loads {load}" for load in page.loads if urlsplit(load).netloc]
        found += [
            f"{name} links to {link}" for link in page.links + page.loads if leads_nowhere(link, path, pages)
        ]
    for path in sorted([*site.rglob("*.md"), *site.rglob("llms.txt")]):
        text = re.sub(r"(?ms)^ *```.*?^ *```|`[^`\n]*`", "", path.read_text(encoding="utf-8"))
        for link in MARKDOWN.findall(text):
            parts = urlsplit(link)
            if not parts.scheme and parts.path and not (path.parent / unquote(parts.path)).exists():
                found.append(f"{path.relative_to(site)} links to {link}")
    return found


def leads_nowhere(link: str, path: Path, pages: dict[Path, Page]) -> bool:
    """Reports whether a link of the page at path has no target in the site."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return False
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return True
    return bool(parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors)
