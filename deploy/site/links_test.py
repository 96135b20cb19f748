import tempfile
import unittest
from pathlib import Path

import links


class Links(unittest.TestCase):
    def broken(self, **pages: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in pages.items():
                Path(folder, name.replace("_", ".")).write_text(text, encoding="utf-8")
            return links.broken(Path(folder))

    def test_a_link_to_a_page_and_an_anchor_that_exist_is_not_reported(self) -> None:
        self.assertEqual(
            [], self.broken(a_html='<a href="b.html#x">', b_html='<h1 id="x">', c_md="[b](b.html)")
        )

    def test_a_link_to_a_page_that_does_not_exist_is_reported(self) -> None:
        self.assertEqual(["a.html links to b.html"], self.broken(a_html='<a href="b.html">'))
        self.assertEqual(["a.md links to b.md"], self.broken(a_md="[b](b.md)"))

    def test_a_link_to_an_anchor_that_does_not_exist_is_reported(self) -> None:
        self.assertEqual(
            ["a.html links to b.html#y"], self.broken(a_html='<a href="b.html#y">', b_html='<h1 id="x">')
        )
        self.assertEqual(["a.html links to #y"], self.broken(a_html='<a href="#y">'))

    def test_what_is_loaded_from_another_host_is_reported(self) -> None:
        self.assertEqual(
            ["a.html loads https://x.test/f.js"], self.broken(a_html='<script src="https://x.test/f.js">')
        )
