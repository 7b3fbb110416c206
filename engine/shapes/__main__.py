"""`python -m engine.shapes`"""

from engine.shapes.cli import main

if __name__ == "__main__":
    main()
