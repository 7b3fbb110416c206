"""`python -m engine …`"""

from engine.cli import main

main()
