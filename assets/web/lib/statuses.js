// The table of engine/trace/events.py, by a token's status or by the stage before it has one: {drafted, tested, emitted,
// mark, word}. app/ui/html_component.py writes the table here when it puts the scripts together.
const STATUSES = STATUS_TABLE;
const isDrafted = token => STATUSES[token.status].drafted, isTested = token => STATUSES[token.status].tested;
const isEmitted = token => STATUSES[token.status].emitted;
