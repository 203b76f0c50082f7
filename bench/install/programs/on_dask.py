"""The first result of Dask's processes on this machine."""

from distributed import Client, LocalCluster


def double(number: int) -> int:
    """The task."""
    return 2 * number


if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        for future in client.map(double, range(10)):
            print(future.result(), flush=True)
