"""The Task Execution Service of a grid: workflow engines submit their tasks to it, and machines of the grid run them.

It speaks TES 1.1 of the Global Alliance for Genomics and Health, as Snakemake, Nextflow, cwl-tes and py-tes do.
"""
