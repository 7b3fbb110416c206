"""`python -m engine.lab`"""

from engine.lab.cli import main

if __name__ == "__main__":
    main()
