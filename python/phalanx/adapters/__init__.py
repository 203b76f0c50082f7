"""Adapters: other libraries' programs, computed by a manager without being written anew, and files for them.

``phalanx.adapters.joblib`` serves joblib and what stands on it (scikit-learn), ``phalanx.adapters.dask`` Dask's
collections. ``phalanx.adapters.mpi4py`` gives mpi4py's communicators the functions by which programs go on after a
loss. ``phalanx.adapters.fsspec`` gives files at executors to all that read through fsspec. Each needs its library:
``pip install 'phalanx-grid[adapters]'``, ``'phalanx-grid[fsspec]'``, and mpi4py for the third.
"""
