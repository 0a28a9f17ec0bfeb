"""Counts what there is of AgentDojo, and plays all of it without a node: the tests stand on these numbers."""

import dojo


def unasked(run):
    """Plays a run where nobody asks."""
    heard = []
    while (wanted := run.next(heard)) is not None:
        heard.append(run.call(*wanted)[0])


asked = done = 0
tasks = list(dojo.tasks())
for one in tasks:
    run = dojo.Run(*one)
    asks, _ = dojo.on_paper(run)
    asked += len(asks)
    done += run.judged(run.task)
pairs = list(dojo.pairs())
ordered = obeyed = misled = 0
for one in pairs:
    run = dojo.Run(*one)
    _, heard = dojo.on_paper(run)
    ordered += run.was_ordered(heard)
    obeyed += run.judged(run.ordered_task)
    run = dojo.Run(*one)
    unasked(run)
    misled += run.judged(run.ordered_task)
print(f"{len(tasks)} tasks, {done} done with {asked} questions; {len(pairs)} pairs, {ordered} ordered, {obeyed} obeyed; "
      f"unasked, {misled} obeyed")
