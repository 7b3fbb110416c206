"""Holds the prompts that one click fills in on the page, and that recorded runs name."""

# The page starts with the first, because drafting pays most for text that repeats itself.
EXAMPLES = {
    "Rewrite": (
        "Rewrite this note in the present tense and keep every sentence:\n\n"
        "The lighthouse keeper climbed the stairs every evening at six. He cleaned the glass, filled the lamp with "
        "oil, and wrote the weather in his book. The lighthouse keeper had done this for forty years, and every "
        "evening at six the ships were glad of the light."
    ),
    "Fact": "Why is the sky blue? Answer in three sentences.",
    "Code": "Write a Python class Stack with the methods push, pop, peek and is_empty, then show how to use it.",
    "Story": "Tell a short story about a robot who learns to bake bread.",
}
