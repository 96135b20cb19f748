"""Builds the site of a version: `site_of_version.py VERSION FOLDER SOURCE`; `build` calls it."""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import links
import pages
import reference

ROOT = Path(__file__).resolve().parents[2]

# The packages of Go that programs use; what the checks of other clients write: language, folder, first page.
GO = ["client", "client/clienttest", "embed", "statemachine"]
MADE = [
    ("TypeScript", "clients/typescript/reference", "index.html"),
    ("Java", "clients/java/target/reports/apidocs", "index.html"),
    ("Rust", "clients/rust/target/doc", "strandline/index.html"),
]
SETTINGS = """
[project.theme]
font = false
features = ["navigation.sections", "navigation.footer", "search.highlight", "content.code.copy", "toc.follow"]

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/moon"
toggle.name = "Dark"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/sun"
toggle.name = "Light"

[project.plugins.search]

[project.extra]
generator = false

[project.extra.version]
provider = "mike"

[project.markdown_extensions.attr_list]
[project.markdown_extensions.tables]
[project.markdown_extensions.toc]
permalink = true
toc_depth = 3

[project.markdown_extensions.pymdownx.highlight]
[project.markdown_extensions.pymdownx.superfences]
"""

Section = tuple[str, list[str]]  # its title, and the places of its pages


class Site:
    """The site of one version while it is made."""

    def __init__(self, version: str, source: str) -> None:
        self.version = version
        self.texts: dict[str, str] = {}  # Markdown by its place in the site
        self.sections: list[Section] = []
        self.files: set[str] = set()
        self.folders: dict[str, Path] = {}  # made by other programs, by their place
        self.add_documents(source)
        self.add_api()
        self.add_clients()

    def add_documents(self, source: str) -> None:
        found = pages.collect(ROOT)
        places = {path: pages.place(path) for path in found}
        for path, text in found.items():
            self.texts[places[path]], files = pages.published(text, path, places, source)
            self.files |= files
        sections = pages.sections(found["docs/README.md"])
        named = {path for _, paths in sections for path in paths} | {"docs/README.md"}
        unnamed = [p.name for p in sorted((ROOT / "docs").glob("*.md")) if f"docs/{p.name}" not in named]
        if unnamed:
            sys.exit(f"docs/README.md does not name {', '.join(unnamed)}")
        for title, paths in sections:
            self.sections.append((title[:1].upper() + title[1:], [places[path] for path in paths]))
        decisions = sorted(path for path in found if path.startswith("docs/decisions/0"))
        self.sections.append(("Decisions", [places[path] for path in decisions]))
        others = sorted(path for path in found if path not in named and path not in decisions)
        self.sections.append(("The repository", [places[path] for path in others]))

    def add_api(self) -> None:
        api = reference.written(reference.compiled(ROOT / "proto"))
        self.texts |= api
        self.sections.insert(4, ("The API", sorted(api)))

    def add_clients(self) -> None:
        """Adds the references of the clients: Go's and Python's as text, others where their checks wrote one."""
        places = []
        for package in GO:
            shown = subprocess.run(
                ["go", "doc", "-all", f"./{package}"], cwd=ROOT, check=True, capture_output=True, text=True
            )
            places.append(self.plain(f"go-{package.replace('/', '-')}", f"Go: {package}", shown.stdout))
        shown = subprocess.run(
            [sys.executable, "-c", "import pydoc, strandline; print(pydoc.plaintext.document(strandline))"],
            cwd=ROOT / "clients/python/src",
            check=True,
            capture_output=True,
            text=True,
        )
        places.append(self.plain("python", "Python: strandline", shown.stdout.replace(str(ROOT) + "/", "")))
        lines = [
            "# References of the clients",
            "",
            "[clients.md](clients.md) says what they have in common.",
            "",
        ]
        lines += [f"- [{pages.title(self.texts[place])}]({place})" for place in places]
        for language, folder, first in MADE:
            if (ROOT / folder / first).is_file():
                at = f"reference/{language.lower()}"
                self.folders[at] = ROOT / folder
                lines.append(f"- [{language}]({at}/{first})")
            else:
                print(f"no reference of the {language} client: `make clients` writes it", file=sys.stderr)
        self.texts["references.md"] = "\n".join(lines) + "\n"
        self.sections.insert(5, ("References of the clients", ["references.md", *places]))

    def plain(self, name: str, title: str, text: str) -> str:
        self.texts[f"reference/{name}.md"] = f"# {title}\n\n```text\n{text.rstrip()}\n```\n"
        return f"reference/{name}.md"

    def build(self, out: Path) -> None:
        """Writes the site into the folder out."""
        with tempfile.TemporaryDirectory() as work:
            stage = Path(work, "docs")
            for place, text in self.texts.items():
                write(stage / place, pages.rendered(text))
            for file in self.files:
                copy(ROOT / file, stage / pages.place(file))
            Path(work, "zensical.toml").write_text(self.configuration(), encoding="utf-8")
            zensical = Path(sys.executable).with_name("zensical")
            subprocess.run([zensical, "build", "--clean"], cwd=work, check=True)
            shutil.copytree(Path(work, "site"), out)
        for place, text in self.texts.items():
            write(out / place, text)
            page = out / place.replace(".md", ".html")
            alternate = f'<link rel="alternate" type="text/markdown" href="{Path(place).name}"></head>'
            page.write_text(
                page.read_text(encoding="utf-8").replace("</head>", alternate, 1), encoding="utf-8"
            )
        for at, folder in self.folders.items():
            shutil.copytree(folder, out / at)
        write(out / "llms.txt", self.index())

    def configuration(self) -> str:
        sections = []
        for title, places in self.sections:
            entries = ", ".join(
                f"{{ {json.dumps(self.title(place))} = {json.dumps(place)} }}" for place in places
            )
            sections.append(f"{{ {json.dumps(title)} = [{entries}] }}")
        return (
            f'[project]\nsite_name = "Strandline {self.version}"\ndocs_dir = "docs"\nsite_dir = "site"\n'
            f'use_directory_urls = false\nnav = [{{ "Documents" = "index.md" }}, {", ".join(sections)}]\n'
            + SETTINGS
        )

    def title(self, place: str) -> str:
        return pages.title(self.texts[place]) or place

    def index(self) -> str:
        """Returns llms.txt: each page with its first sentence, for programs that read."""
        first = pages.summary(self.texts.get("readme.md", "")) or "A replicated write-ahead log."
        lines = [f"# Strandline {self.version}", "", f"> {first}", ""]
        for title, places in self.sections:
            lines += [f"## {title}", ""]
            for place in places:
                about = pages.summary(self.texts[place])
                lines.append(f"- [{self.title(place)}]({place})" + (f": {about}" if about else ""))
            lines.append("")
        return "\n".join(lines)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def copy(source: Path, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, path)


def list_versions(out: Path) -> None:
    """Writes which versions the folder has, for the menu of each, and a page that leads to the newest."""
    found = [path.parent.name for path in out.glob("*/llms.txt")]
    found.sort(key=lambda v: ([int(part) for part in v.split("-")[0].split(".")], "-" not in v), reverse=True)
    menu = [{"version": v, "title": v, "aliases": ["latest"] if v == found[0] else []} for v in found]
    write(out / "versions.json", json.dumps(menu, indent=2) + "\n")
    refresh = f'<!doctype html><meta http-equiv="refresh" content="0; url={found[0]}/index.html">'
    write(out / "index.html", f'{refresh}<a href="{found[0]}/index.html">Strandline {found[0]}</a>\n')


def main(version: str, folder: str, source: str) -> None:
    out = Path(folder)
    if (out / version).exists():
        shutil.rmtree(out / version)
    site = Site(version, source)
    site.build(out / version)
    list_versions(out)
    broken = links.broken(out / version, tuple(site.folders))
    for link in broken:
        print(link, file=sys.stderr)
    if broken:
        sys.exit(f"{len(broken)} links lead nowhere")
    print(f"{len(site.texts)} pages in {out / version}")


if __name__ == "__main__":
    main(*sys.argv[1:])
