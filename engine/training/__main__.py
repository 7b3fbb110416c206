"""`python -m engine.training …`"""

from engine.training.cli import main

main()
