"""When the owner of a machine lets it work for others: what sensors see, what the owner pauses, and what was used.

The decision itself is an engine of the native core (``phalanx-core/src/voluntary``). What is here asks the system, and
keeps files in the owner's home folder: a pause, and the books of what each executor has used.
"""
