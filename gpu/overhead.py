"""What each mode costs: times of single all-reduces, the modes in turn in every round, so that drift meets all alike."""

import statistics

from jobs import Job, JobFailed

MODES = ("neither", "plugin", "preload", "both")
N_RANKS = 2
JOB_S = 200


def measure(scenarios):
    """Fills the report's overhead, and a scenario that says whether it could."""
    report, quick = scenarios.report, scenarios.quick
    # (bytes, calls)
    sizes, rounds = ([(64 << 10, 5), (256 << 10, 5)], 1) if quick else ([(1 << 20, 30), (64 << 20, 8)], 5)
    scenario = report.add("overhead")
    taken = {}
    try:
        for number in range(rounds):
            if report.is_late:
                scenario.facts["cut short"] = "after %d of %d rounds, for lack of time" % (number, rounds)
                break
            for mode in MODES:
                steps = [{"step": "time", "sizes": sizes}]
                with Job(scenarios.stage, "overhead-%s-%d" % (mode, number), mode, N_RANKS, steps) as job:
                    results = job.results(JOB_S)
                    job.let_go()
                for size, _ in sizes:
                    times = results[0]["times"][str(size)]
                    taken.setdefault((size, mode), []).append((times["call_s"], times["done_s"]))
    except JobFailed as error:
        scenario.fail(str(error))
        return
    for (size, mode), times in taken.items():
        report.overhead.append(row(size, mode, times, taken[size, "neither"]))
    if not taken:
        scenario.skip("no time was left for a round")
        return
    scenario.equal("modes measured at each size", len(report.overhead), len(sizes) * len(MODES))
    calls = ", ".join("%d calls of %d KiB" % (n_calls, size >> 10) for size, n_calls in sizes)
    scenario.facts["how"] = "%d ranks, level counters; in each round %s" % (N_RANKS, calls)


def row(size, mode, times, reference):
    done = [one[1] for one in times]
    median = statistics.median(done)
    return {
        "size_bytes": size,
        "mode": mode,
        "rounds": len(times),
        "call_s": statistics.median(one[0] for one in times),
        "done_s": median,
        "done_spread": (max(done) - min(done)) / median,
        "done_ratio": median / statistics.median(one[1] for one in reference),
    }
