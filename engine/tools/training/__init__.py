"""How the shipped drafts were made, rerunnable for any target of the Llama family: see README.md here."""
