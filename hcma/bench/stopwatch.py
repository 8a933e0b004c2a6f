"""Time as a clock on the wall and as the processors count it, which other processes do not disturb as much."""
import resource
import statistics
import time

KIB = 1024


def processor_seconds():
    """What this process, and the children it waited for, computed so far."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_bytes():
    """The most that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


def measure(call, least=5, seconds=4.0, warm_up=2):
    """{'wall', 'cpu'}: the median seconds of a call, from at least so many calls and so many seconds."""
    for _ in range(warm_up):
        call()
    walls, processors, began = [], [], time.perf_counter()
    while len(walls) < least or time.perf_counter() - began < seconds:
        wall, processor = time.perf_counter(), processor_seconds()
        call()
        walls.append(time.perf_counter() - wall)
        processors.append(processor_seconds() - processor)
    return {'wall': statistics.median(walls), 'cpu': statistics.median(processors)}


def since(launched):
    """The same of everything since this process was launched, at ``time.time()``."""
    return {'wall': time.time() - launched, 'cpu': processor_seconds()}


def each(times, count):
    """``measure``'s seconds for one of ``count`` things."""
    return {clock: seconds / count for clock, seconds in times.items()}
