"""Messages between pairs: every receive names its source and its tag, so that there is only one outcome."""

from __future__ import annotations

import numpy as np
from differential.layouts import Layout, memory, random_layout, spec
from differential.step import Step
from mpi4py import MPI


def _receiving_side(step: Step, sent: Layout, count: int) -> tuple[Layout, int]:
    """The same elements as they were sent, or one behind the other."""
    if sent.element is None or step.random.random() < 0.5:
        return sent, count
    return Layout(sent.element, sent.element, 1), count * sent.elements


def _status(status: MPI.Status, layout: Layout) -> tuple[int, ...]:
    return (
        status.Get_source(),
        status.Get_tag(),
        status.Get_count(layout.datatype),
        status.Get_elements(layout.datatype),
    )


def permutation(step: Step) -> None:
    """Everybody sends to one, with room for more at the receiver."""
    to = step.random.sample(range(step.size), step.size)
    layout, count = random_layout(step.random), step.count()
    into, most = _receiving_side(step, layout, count)
    most += step.random.randint(0, 3)
    how, first = step.random.randrange(6), step.random.random() < 0.5
    sent, received = memory(layout, count, step.content()), memory(into, most)
    source, goal, status = to.index(step.rank), to[step.rank], MPI.Status()
    out, place = spec(sent, count, layout), spec(received, most, into)
    if how == 0:
        step.comm.Sendrecv(out, goal, step.tag, place, source, step.tag, status)
    elif how == 1:
        both = [step.comm.Send_init(out, goal, step.tag), step.comm.Recv_init(place, source, step.tag)]
        for _ in range(2):
            MPI.Prequest.Startall(both)
            both[0].Wait()
            both[1].Wait(status)
        for request in both:
            request.Free()
    else:
        begin = step.comm.Issend if how == 2 else step.comm.Isend
        send = None if first else begin(out, goal, step.tag)
        if how == 3:
            send = send or begin(out, goal, step.tag)
            step.comm.Mprobe(source, step.tag, status).Recv(place, status)
        else:
            receive = step.comm.Irecv(place, source, step.tag)
            send = send or begin(out, goal, step.tag)
            receive.Wait(status)
        send.Wait()
    step.say(how, received, sent, *_status(status, into))
    layout.free()


def replaced(step: Step) -> None:
    """Round the ring, in place."""
    layout, count = random_layout(step.random), step.count()
    place = memory(layout, count, step.content())
    right, left = (step.rank + 1) % step.size, (step.rank - 1) % step.size
    step.comm.Sendrecv_replace(spec(place, count, layout), right, step.tag, left, step.tag)
    step.say(place)
    layout.free()


def many(step: Step) -> None:
    """Many messages under way at once; receives are not posted in the order of the sends, but for equal tags."""
    layout = random_layout(step.random, 1)
    plans = [
        (
            step.random.randrange(step.size),
            step.random.randrange(step.size),
            step.random.randrange(3),
            step.count(20),
        )
        for _ in range(step.random.randint(4, 16))
    ]
    requests, places, content = [], [], step.content()
    for source, to, tag, count in plans:
        if source == step.rank:
            data = memory(layout, count, content)
            places.append(data)
            requests.append(step.comm.Isend(spec(data, count, layout), to, tag))
    received = []
    for source, to, tag, count in sorted(plans, key=lambda plan: plan[2]):
        if to == step.rank:
            place = memory(layout, count)
            received.append(place)
            requests.append(step.comm.Irecv(spec(place, count, layout), source, tag))
    MPI.Request.Waitall(requests)
    step.say(*received)
    layout.free()


def probed(step: Step) -> None:
    """The receiver learns the length first."""
    layout, count = random_layout(step.random), step.count()
    right, left, status = (step.rank + 1) % step.size, (step.rank - 1) % step.size, MPI.Status()
    sent = memory(layout, count, step.content())
    send = step.comm.Isend(spec(sent, count, layout), right, step.tag)
    step.comm.Probe(left, step.tag, status)
    place = memory(layout, status.Get_count(layout.datatype))
    step.comm.Recv(spec(place, status.Get_count(layout.datatype), layout), left, step.tag, status)
    send.Wait()
    step.say(place, *_status(status, layout))
    layout.free()


def packed(step: Step) -> None:
    """Pack and unpack, also as all machines write it."""
    layout, count = random_layout(step.random), step.random.randint(0, 20)
    data, back = memory(layout, count, step.content()), memory(layout, count)
    length = count * layout.datatype.Get_extent()[1]
    room = np.full(layout.datatype.Pack_external_size("external32", count), 0xA5, np.uint8)
    end = layout.datatype.Pack_external("external32", data[:length], room, 0)
    layout.datatype.Unpack_external("external32", room[:end], 0, back[:length])
    step.say(end, room[:end], back, layout.datatype.Get_extent(), layout.datatype.Get_true_extent())
    layout.free()
