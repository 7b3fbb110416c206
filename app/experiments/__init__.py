"""Pieces of work for the lab, as Service.experiment takes them. Beside service.py the only files that call the engine.

They are made in a handler, where torch may not be loaded yet, and run on the engine's own thread: each imports what it
needs of the engine inside. Whatever they find out they yield as a Report.
"""
