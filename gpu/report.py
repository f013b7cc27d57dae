"""What was found: scenarios with their checks, overhead, blind spots; as JSON and as a page of Markdown."""

import json
import os
import time


class Scenario:
    """One scenario in one mode. `status` is passed, failed or not_run."""

    def __init__(self, name, mode=None):
        self.name, self.mode, self.reason = name, mode, None
        self.checks, self.facts = [], {}

    def equal(self, what, found, wanted):
        """A check that `found` is `wanted`."""
        check = {"check": what, "ok": found == wanted, "found": found}
        if found != wanted:
            check["wanted"] = wanted
        self.checks.append(check)

    def fail(self, words):
        self.checks.append({"check": "runs to its end", "ok": False, "found": words, "wanted": "no error"})

    def skip(self, reason):
        self.reason = reason

    @property
    def failures(self):
        return [check for check in self.checks if not check["ok"]]

    @property
    def title(self):
        return self.name + (" / " + self.mode if self.mode else "")

    def as_json(self):
        status = "failed" if self.failures else "not_run" if self.reason else "passed"
        document = {"scenario": self.name, "mode": self.mode, "status": status}
        if self.reason:
            document["reason"] = self.reason
        document.update(checks=self.checks, facts=self.facts)
        return document


class Report:
    """All of it."""

    def __init__(self, versions, quick, minutes):
        self.versions, self.quick, self.minutes = versions, quick, minutes
        self.scenarios, self.overhead, self.blind_spots = [], [], []
        self.started = time.monotonic()

    def add(self, name, mode=None):
        self.scenarios.append(Scenario(name, mode))
        return self.scenarios[-1]

    @property
    def is_late(self):
        """Whether nothing long is to be begun any more."""
        return time.monotonic() - self.started > self.minutes * 60

    @property
    def failures(self):
        return [(one, check) for one in self.scenarios for check in one.failures]

    def as_json(self):
        return {
            "format": 1,
            "ok": not self.failures,
            "quick": self.quick,
            "took_s": round(time.monotonic() - self.started, 1),
            "versions": self.versions,
            "scenarios": [one.as_json() for one in self.scenarios],
            "overhead": self.overhead,
            "blind_spots": self.blind_spots,
        }

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        document = self.as_json()
        with open(os.path.join(folder, "report.json"), "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1, sort_keys=False)
            file.write("\n")
        with open(os.path.join(folder, "report.md"), "w", encoding="utf-8") as file:
            file.write("\n".join(self.markdown(document)) + "\n")

    def markdown(self, document):
        """The page: what failed first."""
        lines = ["# ringscope on %s" % self.versions.get("machine", "this machine"), ""]
        if self.failures:
            lines += ["**%d checks failed:**" % len(self.failures), ""]
            for one, check in self.failures:
                lines.append("- %s: %s: found `%s`, wanted `%s`"
                             % (one.title, check["check"], short(check["found"]), short(check["wanted"])))
        else:
            lines.append("All %d checks passed." % sum(len(one.checks) for one in self.scenarios))
        lines += ["", "| what | version |", "|---|---|"]
        lines += ["| %s | %s |" % item for item in sorted(self.versions.items())]
        lines += ["", "## Scenarios", "", "| scenario | mode | status | checks | said |", "|---|---|---|---|---|"]
        for one in document["scenarios"]:
            facts = ["%s: %s" % (name, short(value, 160)) for name, value in one["facts"].items()]
            said = one.get("reason") or "; ".join(facts)
            row = (one["scenario"], one["mode"] or "", one["status"].replace("_", " "), len(one["checks"]), cell(said))
            lines.append("| %s | %s | %s | %d | %s |" % row)
        lines += ["", "## Overhead", ""] + self._overhead()
        lines += ["", "## Blind spots", "", "| question | answer | evidence |", "|---|---|---|"]
        for spot in self.blind_spots:
            answer = spot["answer"].replace("_", " ")
            lines.append("| %s | %s | %s |" % (spot["question"], answer, cell(spot["evidence"])))
        return lines

    def _overhead(self):
        if not self.overhead:
            return ["Not measured."]
        lines = [
            "Median of the rounds, each the median of single all-reduces; spread is (max - min) / median over rounds.",
            "",
            "| size | mode | rounds | call µs | until done µs | spread | ratio to neither |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in self.overhead:
            lines.append("| %d KiB | %s | %d | %.1f | %.1f | %.0f %% | %.3f |" % (
                row["size_bytes"] >> 10, row["mode"], row["rounds"], row["call_s"] * 1e6, row["done_s"] * 1e6,
                row["done_spread"] * 100, row["done_ratio"]))
        return lines


def short(value, limit=300):
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= limit else text[:limit] + "..."


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")
