"""The first result of Ray's processes on this machine."""

import ray


def double(number: int) -> int:
    """The task."""
    return 2 * number


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    remote = ray.remote(double)
    for reference in [remote.remote(number) for number in range(10)]:
        print(ray.get(reference), flush=True)
    ray.shutdown()
