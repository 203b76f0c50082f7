"""The Task Execution Service of a grid. Workflow engines submit tasks to it, and machines of the grid run them.

It implements TES 1.1 of the Global Alliance for Genomics and Health, which Snakemake, Nextflow, cwl-tes and py-tes use.
"""
