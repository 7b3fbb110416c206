"""`python -m engine …`"""

from engine.runtime.huge_pages import restart_with_huge_pages

restart_with_huge_pages()  # before the imports, which would be made twice

from engine.tools.cli.main import main  # noqa: E402

main()
