"""Applications as programs of their own: each runs in a process that can be killed with SIGKILL, as real ones are.

A process of Python takes half a second to start, so one is started that has everything loaded, and is forked for each
application (``zygote``). Both sides talk in lines of JSON (``words``). Nothing here knows of rules or judges anything.
"""
