"""The soak: many clients, many topics, faults, for hours, and a history of all of it that ``verify`` judges.

``plan`` says what a soak consists of, all of it from one seed; ``words`` is what the soak and its client processes tell
one another; ``client`` is such a process, ``producing`` and ``consuming`` what goes on in it; ``clients`` starts them;
``disturbing`` carries out the faults, ``looking`` reads cursors, ``subscribing`` has subscriptions made later;
``healing`` waits until everything is delivered; ``run`` is the procedure.
"""
