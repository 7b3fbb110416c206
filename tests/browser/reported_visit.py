"""Names what the learner does whose report is tested."""

from lessons.loader import lessons

# The first step that asks for a number.
LESSON, STEP = next(
    (lesson.slug, i)
    for lesson in lessons()
    for i, step in enumerate(lesson.steps)
    if step.ask and step.ask.kind == "number"
)
RULE = ("p / q", "max(p - q, 0)", "p")
NAME = '<script>pwned=1</script> Ada & "Co"'
