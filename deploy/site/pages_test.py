import unittest

import pages


class Pages(unittest.TestCase):
    def test_links_lead_to_where_the_site_has_the_page_and_others_are_text(self) -> None:
        places = {
            path: pages.place(path)
            for path in ("docs/README.md", "docs/a.md", "docs/decisions/1.md", "SECURITY.md")
        }
        text = (
            "[a](../a.md#x), [home](../README.md), [secure](../../SECURITY.md), [code](../../internal/x.go), "
            "![p](p.svg), [t](t.csv)"
        )
        got, files = pages.published(text, "docs/decisions/1.md", places, "")
        self.assertEqual(
            "[a](../a.md#x), [home](../index.md), [secure](../SECURITY.md), code, ![p](p.svg), [t](t.csv)",
            got,
        )
        self.assertEqual({"docs/decisions/p.svg", "docs/decisions/t.csv"}, files)
        got, _ = pages.published("[code](../internal/x.go)", "docs/a.md", places, "https://x.test/v1/")
        self.assertEqual("[code](https://x.test/v1/internal/x.go)", got)

    def test_a_table_of_the_first_page_is_a_section(self) -> None:
        readme = (
            "# D\n\n| to run | |\n|---|---|\n| [a](a.md), [b](b.md) | [a](a.md#x) |\n"
            "\n| to code | |\n|---|---|\n| [c](c.md) | |\n"
        )
        self.assertEqual(
            [("to run", ["docs/a.md", "docs/b.md"]), ("to code", ["docs/c.md"])], pages.sections(readme)
        )

    def test_lists_and_headings_are_what_python_markdown_reads(self) -> None:
        self.assertEqual(
            "## A b? {#a-b}\ntext\n\n1. one\n\n    ```\n        code\n    ```\n\n2. two\n    more",
            pages.rendered("## A b?\ntext\n1. one\n\n   ```\n       code\n   ```\n2. two\n   more"),
        )

    def test_the_summary_is_the_first_sentence(self) -> None:
        self.assertEqual(
            "A hold has a name.", pages.summary("# Holds\n\nA [hold](h.md) has\na name. It keeps.\n")
        )
