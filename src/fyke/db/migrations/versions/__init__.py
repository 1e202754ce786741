"""One file a step: `NNNN_what.py`; the highest number is the schema that this release needs."""
