"""Worker processes: applications of the lockstep and clients of a soak, each in a process that can be killed.

Python takes half a second to start. So one process (``zygote``) loads everything once, and is forked for each worker
(``starter``). Suite and worker exchange lines of JSON (``protocol``).
"""
