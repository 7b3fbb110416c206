"""`python -m engine …`"""

from engine.cli.main import main

main()
