"""The experiment with many users: total and per-user tokens a second, plain and with drafts."""
