"""Live page: simulate a configuration again after every change.

Input is a configuration as JSON with the keys of a file. Output is a stream of events, one JSON object per line, each refining the
last.

- ``app`` handles requests, ``guard`` rejects requests of other pages, ``server`` listens on the loopback interface.
- ``evaluation`` decides which runs answer a question, and in which order; ``ranking`` does so for "What would help most?".
- ``pool`` owns the worker processes, ``messages`` defines the calls and their results, ``worker`` performs them. ``summaries`` and
  ``live_figures`` turn metrics into text and charts, with the functions of ``endive run`` and ``endive compare``.
- ``settings``, ``presets``, ``changes``, ``form`` and ``saving`` deal with configurations.

Workers keep no state: rows and metrics are in a directory of the server (``endive.studies.replicate``). The page keeps its state
in its address; the server knows the last question of each tab and cancels it when a newer one arrives.
"""
