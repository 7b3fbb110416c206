"""The answer: a text and a load in; a method, its draft length, a configuration and how sure that is out."""
