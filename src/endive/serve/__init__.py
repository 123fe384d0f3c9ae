"""Live page: simulate a configuration again after every change.

The input is a configuration as JSON, with the keys of a configuration file. The output is a stream of events, one JSON object per
line; later events refine earlier ones.

- ``live`` handles requests, ``guard`` rejects requests of other pages, ``server`` listens on the loopback interface.
- ``evaluation`` decides which runs to simulate for the page and for "What would help most?", and in which order.
- ``pool`` manages the worker processes, ``messages`` defines the calls and their results, ``worker`` performs the calls.
- ``summaries`` turns metrics into text and charts, as ``endive run`` and ``endive compare`` do.
- ``page_configuration``, ``changes`` and ``saving`` read, change and save configurations.

Workers have no state: rows and metrics are in a directory of the server (``endive.studies.replicate``). The URL of the page
contains the state of the page. The server keeps only the latest request of each tab, and cancels it when a newer one arrives.
"""
