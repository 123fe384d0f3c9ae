"""The live page: a configuration that is simulated again whenever somebody changes it.

In: a configuration as JSON, with the keys of a file (``trees``). Out: events, one JSON object in a line, each refining the last.

- ``app`` takes requests, ``guard`` refuses those that are not of the page itself, ``server`` listens on the loopback interface.
- ``asking`` decides what is run for a question, and in which order; ``answers``, ``figures`` and ``ranking`` make words and charts
  of what was measured. Definitions are those of ``endive run`` and ``endive compare``, whose functions are called.
- ``pool`` owns the worker processes; ``work`` is what they do. A worker owns nothing: rows and metrics lie in a folder of the
  server (``endive.studies.replications``), so that any of them can go on where another was stopped.
- The page owns the state: what it shows, and what it is compared with, stand in its address. The server knows what each tab asked
  last, and stops what nobody waits for any more.
"""
