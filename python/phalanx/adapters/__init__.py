"""Adapters: other libraries' programs, computed by a manager without being written anew.

``phalanx.adapters.joblib`` serves joblib and what stands on it (scikit-learn), ``phalanx.adapters.dask`` Dask's
collections. Each needs its library: ``pip install 'phalanx[adapters]'``.
"""
