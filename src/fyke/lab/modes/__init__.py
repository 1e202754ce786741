"""The ways of "once" that the articles compare, each as they do it, beside Fyke: what is doubled, lost and how fast.

Nothing in here is needed to collect. Every mode is a program of its own with the same site, the same processes and the
same kills.
"""
