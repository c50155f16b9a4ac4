"""A hook of MkDocs: README, CONTRIBUTING, the latest report and every linked file are in the site.

Pages link to files of the repository by relative paths, as forges show them. The site has a copy of
each such file, with the suffix `.txt`, which browsers display. The latest report is that of `reports/`;
without one, it is the sample.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
#: Pages outside of docs/, and what they are called in the site.
PAGES = {
    "README.md": "index.md",
    "cases/README.md": "case-schema.md",
    **{f"{n}.md": f"{n}.md" for n in ("CONTRIBUTING", "CHANGELOG", "SECURITY")},
}
REPORT = ("index.html", "report.md", "details", "programs")
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(\[[^\]]*\]\()([^)\s#]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages and files, and make links lead to them."""
    pages = {f"docs/{page.src_uri}": page.src_uri for page in files.documentation_pages()} | PAGES
    for path, page in pages.items():
        text = (ROOT / path).read_text("utf-8")
        parts = _FENCED.split(text)
        fences = [*_FENCED.findall(text), ""]
        site = _Links(path, page, pages, files, config)
        written = "".join(
            _LINK.sub(site.changed, part) + fence for part, fence in zip(parts, fences, strict=True)
        )
        _put(files, File.generated(config, page, content=written))
    for uri, file in _report():
        if files.get_file_from_path(uri) is None:
            _put(files, File.generated(config, uri, abs_src_path=str(file)))
    return files


def _put(files: Files, file: File) -> None:
    was = files.get_file_from_path(file.src_uri)
    if was is not None:
        files.remove(was)
    files.append(file)


class _Links:
    """The links of one page: `path` in the repository, `page` in the site."""

    def __init__(
        self, path: str, page: str, pages: dict[str, str], files: Files, config: MkDocsConfig
    ) -> None:
        self.path, self.page, self.pages = path, page, pages
        self.files, self.config = files, config

    def changed(self, link: re.Match[str]) -> str:
        before, target, after = link.groups()
        if ":" in target:
            return link[0]
        named = os.path.normpath(PurePosixPath(self.path).parent / target)
        inside = self.pages.get(named) or self._copied(named)
        return f"{before}{os.path.relpath(inside, PurePosixPath(self.page).parent)}{after}"

    def _copied(self, named: str) -> str:
        """The address in the site of a file of the repository that is no page."""
        if named.startswith("docs/"):
            return named.removeprefix("docs/")
        if named.startswith("reports/sample"):
            return "report/index.html"
        source = ROOT / named
        if source.is_dir():
            listed = "\n".join(f"- [{f.name}]({f.name}.txt)" for f in sorted(source.glob("*.*")))
            for file in source.glob("*.*"):
                self._copied(f"{named}/{file.name}")
            _put(
                self.files,
                File.generated(
                    self.config, f"repository/{named}/index.md", content=f"# {named}\n\n{listed}\n"
                ),
            )
            return f"repository/{named}/index.md"
        uri = f"repository/{named}.txt"
        _put(self.files, File.generated(self.config, uri, content=source.read_text("utf-8")))
        return uri


def _report() -> Iterator[tuple[str, Path]]:
    """The files of the latest report, with their addresses in the site."""
    made = ROOT / "reports"
    folder = made if (made / "index.html").exists() else made / "sample"
    for name in REPORT:
        for file in (folder / name, *(folder / name).rglob("*")):
            if file.is_file() and file.suffix != ".md":
                yield f"report/{file.relative_to(folder).as_posix()}", file
