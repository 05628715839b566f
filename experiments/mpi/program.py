"""An MPI program with three kinds of parallelism, from the finest to the coarsest.

ring: a token of 8 bytes goes around all ranks; allreduce: sums of 8 B, 8 KiB and 256 KiB over all ranks; solver:
Jacobi's method for a plate whose edge has a temperature, rows divided among the ranks, neighbours' rows exchanged in each
step and the largest change found in every tenth. Rank 0 writes to /out what each took, a file for each kind.

program.py TURNS: so many turns of the ring and sums of each size, and twice as many steps.
"""

import sys
import time

import numpy
from mpi4py import MPI

WIDTH = 512


def ring(world, turns, log):
    rank, size = world.Get_rank(), world.Get_size()
    token = numpy.zeros(1)
    for _ in range(turns):
        began, then = time.time(), MPI.Wtime()
        if rank == 0:
            world.Send(token, 1 % size)
            world.Recv(token, size - 1)
        else:
            world.Recv(token, rank - 1)
            world.Send(token, (rank + 1) % size)
        log("ring", began, MPI.Wtime() - then)


def allreduce(world, turns, log):
    for numbers in [1, 1 << 10, 1 << 15]:
        mine, sums = numpy.ones(numbers), numpy.empty(numbers)
        world.Barrier()
        for _ in range(turns):
            began, then = time.time(), MPI.Wtime()
            world.Allreduce(mine, sums)
            log(f"allreduce-{8 * numbers}", began, MPI.Wtime() - then)
        if sums[0] != world.Get_size():
            sys.exit("a sum is wrong")


def solver(world, steps, log):
    rank, size = world.Get_rank(), world.Get_size()
    rows = WIDTH // size
    plate = numpy.zeros((rows + 2, WIDTH))
    plate[:, 0] = 100
    above = rank - 1 if rank else MPI.PROC_NULL
    below = rank + 1 if rank + 1 < size else MPI.PROC_NULL
    world.Barrier()
    for step in range(steps):
        began, then = time.time(), MPI.Wtime()
        world.Sendrecv(plate[1], above, recvbuf=plate[-1], source=below)
        world.Sendrecv(plate[-2], below, recvbuf=plate[0], source=above)
        inner = (plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]) / 4
        change = numpy.abs(inner - plate[1:-1, 1:-1]).max()
        plate[1:-1, 1:-1] = inner
        if step % 10 == 9:
            change = world.allreduce(change, MPI.MAX)
        log("step", began, MPI.Wtime() - then)
    if rank == 0:
        print(f"the largest change of the last step: {change:.6f}")


def main():
    world = MPI.COMM_WORLD
    rows = []

    def log(what, began, took):
        rows.append(f"{began * 1e6:.0f} {what} {took * 1e6:.1f}\n")

    turns = int(sys.argv[1])
    ring(world, turns, log)
    allreduce(world, turns, log)
    solver(world, 2 * turns, log)
    if world.Get_rank() == 0:
        for what in dict.fromkeys(row.split()[1] for row in rows):
            with open(f"/out/{what}", "w") as file:
                file.writelines(row for row in rows if row.split()[1] == what)


main()
