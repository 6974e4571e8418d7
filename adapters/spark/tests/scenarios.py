"""Real Spark jobs on a real boatswain; run.py runs each in a process of its own.

    python3 scenarios.py NAME JAR DIRECTORY
"""

import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time

from pyspark.sql import SparkSession

import sql
from harness import (
    BOATSWAIN,
    COUNTS,
    TEXT,
    boatswain,
    equal,
    events_of,
    executor_pids,
    get,
    history_server,
    kill_executors,
    registered,
    removed,
    say,
    spark,
    until,
    word_count,
)

ALL = {}
# Too slow for each change: run only if they are named.
BY_NAME = {}


def scenario(function):
    ALL[function.__name__] = function
    return function


def during(action, job):
    """Runs the job in this thread and the action in another one; fails if either does."""
    failed = []

    def act():
        try:
            action()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    result = job()
    thread.join(60)
    assert not thread.is_alive(), "the action is not done"
    if failed:
        raise failed[0]
    return result


def tasks_done(sc, least):
    """Whether this many tasks of the stages that run have finished."""
    tracker = sc.statusTracker()
    infos = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(info.numCompletedTasks for info in infos if info) >= least


@scenario
def local_with_kills(jar, directory):
    """Eight executors of a boatswain that the adapter starts; three of them are killed in the middle of a job."""
    killed = [2, 4, 7]
    with spark(jar, directory, "spark+boatswain://local", conf={"spark.executor.instances": "8"}) as sc:
        until("eight are registered", lambda: registered(sc) == 8)

        def kill():
            until("the job runs", lambda: tasks_done(sc, 6))
            kill_executors(sc, killed)

        equal(dict(during(kill, word_count(sc, 64, 0.5).collect)), COUNTS)
        until("three are replaced", lambda: registered(sc) == 8)
        equal(dict(word_count(sc, 8, 0).collect()), COUNTS)
        pids = executor_pids(sc)
    gone = {number: reason for number, reason in removed(directory).items() if number in killed}
    equal(sorted(gone), killed)
    assert all("Exited" in reason and "SIGKILL" in reason for reason in gone.values()), gone
    added = events_of(directory, "SparkListenerExecutorAdded")
    assert all(event["Executor Info"]["Log Urls"]["stderr"].endswith("/executor.log") for event in added), added
    log = (directory / "log").read_text(errors="replace")
    equal(log.count("Lost executor"), len(killed))
    # Spark's network code may report broken connections.
    assert "dev.boatswain" not in log and "ERROR Boatswain" not in log, "the adapter has logged an error"
    until("no executor is left", lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids.values()), 10)


@scenario
def restart_and_drain(jar, directory):
    """boatswain is killed and started again in the middle of jobs; an operator drains and kills executors."""
    with boatswain(directory, apart=True) as driver:
        conf = {
            "spark.executor.instances": "4",
            "spark.decommission.enabled": "true",
            "spark.boatswain.lossReason.timeout": "4s",
        }
        with spark(jar, directory, f"spark+boatswain://{driver.address}", on=driver, conf=conf) as sc:
            until("four are registered", lambda: registered(sc) == 4)
            before = executor_pids(sc)

            def restart():
                until("the job runs", lambda: tasks_done(sc, 4))
                driver.kill()
                say("boatswain is killed")
                time.sleep(3)
                driver.run()

            equal(dict(during(restart, word_count(sc, 48, 0.6).collect)), COUNTS)
            equal(executor_pids(sc), before)
            equal(removed(directory), {})

            def drain():
                until("the next job runs", lambda: tasks_done(sc, 2))
                driver.call("POST", "/v1/executors/decommission", {"executors": [1], "by": "an operator"})
                driver.call("POST", "/v1/executors/kill", {"executors": [2], "replace": True, "force": True, "by": "an operator"})

            equal(dict(during(drain, word_count(sc, 32, 0.5).collect)), COUNTS)
            until("both are replaced", lambda: registered(sc) == 4 and not {1, 2} & set(executor_pids(sc)))

            def lose_while_away():
                until("the last job runs", lambda: tasks_done(sc, 2))
                driver.kill()
                kill_executors(sc, [3])
                time.sleep(2)
                driver.run()

            equal(dict(during(lose_while_away, word_count(sc, 32, 0.5).collect)), COUNTS)
            until("it is replaced", lambda: registered(sc) == 4)

            def lose_without_reason():
                until("a job runs without boatswain", lambda: tasks_done(sc, 2))
                kill_executors(sc, [4])

            driver.kill()
            equal(dict(during(lose_without_reason, word_count(sc, 32, 0.5).collect)), COUNTS)
            driver.run()
            until("it is replaced, too", lambda: registered(sc) == 4)
        reasons = removed(directory)
        assert "decommissioned by an operator" in reasons[1], reasons
        assert "killed by an operator" in reasons[2], reasons
        assert 3 in reasons, reasons
        assert "its connection was lost" in reasons[4], reasons
        ends = [event["Task End Reason"] for event in events_of(directory, "SparkListenerTaskEnd")]
        # A kill by an operator is no fault of the tasks that ran there.
        failures = [end for end in ends if end.get("Exit Caused By App") and end["Executor ID"] in "12"]
        equal(failures, [])
        until("boatswain has none left", lambda: not driver.executors(), 20)


@scenario
def killed_thirty_times(jar, directory):
    """boatswain is killed and started again all the time while a job runs: Spark loses no executor.

    At the end it is not started again, and the adapter warns of what it could not say.
    """
    rng = random.Random(20260101)
    conf = {"spark.executor.instances": "4", "spark.boatswain.lastRequests": "1s"}
    with boatswain(directory, apart=True) as driver:
        with spark(jar, directory, f"spark+boatswain://{driver.address}", on=driver, conf=conf) as sc:
            until("four are registered", lambda: registered(sc) == 4)
            before = executor_pids(sc)
            done = threading.Event()

            def restarts():
                for _ in range(30):
                    driver.kill()
                    driver.run()
                    # The adapter, which has waited for longer and longer, connects at any moment.
                    time.sleep(rng.random())
                done.set()

            killer = threading.Thread(target=restarts, daemon=True)
            killer.start()
            while not done.is_set():
                equal(dict(word_count(sc, 16, 0.3).collect()), COUNTS)
                assert killer.is_alive() or done.is_set(), "boatswain does not start again"
            equal(executor_pids(sc), before)
            equal(removed(directory), {})
            driver.kill()
        # Nobody takes the last requests.
        log = (directory / "log").read_text(errors="replace")
        for untold in ("that no executors are wanted any more", "to remove the profiles of this application"):
            equal(log.count(f"boatswain could not be told within 1 s {untold}"), 1)


def wait_for(path):
    """A task that ends when there is such a file."""
    while not pathlib.Path(path).exists():
        time.sleep(0.1)
    return path


@scenario
def dynamic(jar, directory):
    """Dynamic allocation to twelve and down to one, whose shuffle data the eleven others have moved to it."""
    conf = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.maxExecutors": "12",
        "spark.dynamicAllocation.executorIdleTimeout": "4s",
        "spark.dynamicAllocation.shuffleTracking.enabled": "false",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
        "spark.storage.decommission.replicationReattemptInterval": "1s",
    }
    with boatswain(directory) as driver:
        with spark(jar, directory, f"spark+boatswain://{driver.address}", on=driver, conf=conf) as sc:
            counts = word_count(sc, 96, 1.0)
            equal(dict(during(lambda: until("there are twelve", lambda: registered(sc) == 12), counts.collect)), COUNTS)
            alone = directory / "alone"

            def others_go():
                until("one is left", lambda: registered(sc) == 1 and len(driver.executors()) == 1, 120)
                alone.touch()

            # The last one is busy until then. Spark reads its counts of executors one after the other: while others leave,
            # it now and then lets an idle last one go too.
            during(others_go, sc.parallelize([str(alone)], 1).map(wait_for).collect)
            tasks = 96 + 4 + 1
            until("Spark has noted the tasks", lambda: len(events_of(directory, "SparkListenerTaskEnd")) == tasks)
            equal(dict(counts.collect()), COUNTS)
        # Only the result stage's tasks have run again.
        equal(len(events_of(directory, "SparkListenerTaskEnd")) - tasks, 4)
        fetches = [event for event in events_of(directory, "SparkListenerTaskEnd") if event["Task End Reason"]["Reason"] != "Success"]
        equal(fetches, [])
        gone = removed(directory)
        equal(len(gone), 11)
        assert all("spark scale down" in reason for reason in gone.values()), gone


@scenario
def spares(jar, directory):
    """The place of a killed executor is taken by a spare, whose JVM begins only then."""
    conf = {"spark.executor.instances": "2", "spark.boatswain.profile": '{"spares": 1}'}
    with boatswain(directory) as driver:
        with spark(jar, directory, f"spark+boatswain://{driver.address}", on=driver, conf=conf) as sc:
            until("two are registered", lambda: registered(sc) == 2)

            def running():
                there = [executor for executor in driver.executors() if executor["state"] == "running"]
                return [executor["executor"] for executor in there if executor["profile"].endswith("-spares")]

            (spare,) = until("a spare runs", running)
            before = executor_pids(sc)
            assert spare not in before and len(before) == 2, before
            lost = min(before)

            def kill():
                until("the job runs", lambda: tasks_done(sc, 2))
                kill_executors(sc, [lost])

            equal(dict(during(kill, word_count(sc, 32, 0.5).collect)), COUNTS)
            until("the spare is registered", lambda: registered(sc) == 2 and spare in executor_pids(sc))
            until("there is another spare", lambda: running() not in ([], [spare]))
        equal(list(removed(directory)), [lost])
        until("boatswain has none left", lambda: not driver.executors(), 20)


@scenario
def profiles(jar, directory):
    """A stage with a ResourceProfile of its own gets executors of another size; all calls are HTTPS."""
    from pyspark.resource import ExecutorResourceRequests, ResourceProfileBuilder, TaskResourceRequests

    conf = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.maxExecutors": "2",
        "spark.boatswain.caFile": f"{directory}/ca.crt",
    }
    with boatswain(directory, apart=True, tls=True) as driver:
        with spark(jar, directory, f"local-cluster+boatswain+https://{driver.address}", on=driver, conf=conf) as sc:
            size = ExecutorResourceRequests().cores(2).memory("600m")
            profile = ResourceProfileBuilder().require(size).require(TaskResourceRequests().cpus(2)).build
            equal(sc.parallelize(range(8), 4).withResources(profile).map(lambda x: x * 2).sum(), 56)
            names = {executor["profile"].rsplit("-", 1)[1] for executor in driver.executors()}
            assert str(profile.id) in names, names


@scenario
def streaming(jar, directory):
    """A stream counts each word once although an executor is killed, and Spark's history server says why that one ended."""
    with spark(jar, directory, "spark+boatswain://local", conf={"spark.executor.instances": "2"}) as sc:
        application = sc.applicationId
        until("two are registered", lambda: registered(sc) == 2)
        session = SparkSession(sc)
        source, sink = directory / "source", directory / "sink"
        source.mkdir()
        for number in range(8):
            (source / f"{number}.txt").write_text("\n".join(TEXT[number::8]) + "\n")
        lines = session.readStream.option("maxFilesPerTrigger", 1).text(str(source))
        words = lines.selectExpr("explode(split(value, ' ')) AS word")
        query = words.writeStream.trigger(availableNow=True).option("checkpointLocation", f"{directory}/checkpoint")
        query = query.format("json").start(str(sink))
        until("two batches are done", lambda: len(query.recentProgress) >= 2)
        kill_executors(sc, [1])
        query.awaitTermination()
        counts = {row.word: row["count"] for row in session.read.json(str(sink)).groupBy("word").count().collect()}
        equal(counts, COUNTS)
        until("it is replaced", lambda: registered(sc) == 2)
    with history_server(directory) as port:
        url = f"http://127.0.0.1:{port}/api/v1/applications/{application}/allexecutors"
        executors = until("the history is there", lambda: get(url))
        reasons = {executor["id"]: executor.get("removeReason", "") for executor in executors}
        assert "Exited: ended with exit 137 (SIGKILL)" in reasons["1"], reasons


@scenario
def metrics(jar, directory):
    """Executors report the figures by which Spark rolls them, and boatswain replaces the one whose tasks took longest."""
    roll = 'roll = { interval = "5s", policy = "highest", metric = "total_duration", min_tasks = 14 }'
    with boatswain(directory, settings=[roll]) as driver:
        conf = {"spark.plugins": "dev.boatswain.spark.ExecutorMetrics", "spark.executor.instances": "1"}
        with spark(jar, directory, f"spark+boatswain://{driver.address}", on=driver, conf=conf) as sc:
            until("one is registered", lambda: registered(sc) == 1)
            equal(sc.parallelize(range(8), 8).map(lambda x: time.sleep(0.2)).count(), 8)
            pairs = sc.parallelize(range(1000), 4).map(lambda x: (x % 7, 1)).reduceByKey(lambda a, b: a + b, 2)
            equal(pairs.count(), 7)

            def reported():
                metrics = [executor.get("session", {}).get("metrics", {}) for executor in driver.executors()]
                return [of for of in metrics if of.get("tasks", 0) >= 14]

            (found,) = until("they are reported", reported)
            assert found["total_duration"] >= 1600 and found["total_shuffle_write"] > 0, found
            assert found["failed_tasks"] == 0 and found["peak_jvm_onheap_memory"] > 1 << 20, found
            until("it is to be replaced", lambda: 2 in [executor["executor"] for executor in driver.executors()])


@scenario
def ends(jar, directory):
    """A SparkContext fails at once if boatswain refuses it, and with its jobs if boatswain ends the application."""
    with boatswain(directory) as driver:
        master = f"spark+boatswain://{driver.address}"
        (directory / "wrong").write_text("not-the-token\n")
        try:
            with spark(jar, directory, master, conf={"spark.boatswain.tokenFile": str(directory / "wrong")}):
                raise AssertionError("the wrong token was taken")
        except Exception as error:
            assert "refused PUT /v1/profiles/" in str(error) and "the token is the one in" in str(error), error
        say("the wrong token is refused")
        try:
            with spark(jar, directory, master, on=driver, conf={"spark.executor.instances": "1"}) as sc:
                until("one is registered", lambda: registered(sc) == 1)

                def end():
                    until("the job runs", lambda: tasks_done(sc, 1))
                    driver.call("POST", "/v1/application/end", {"exit_code": 3})

                during(end, word_count(sc, 64, 1).collect)
                raise AssertionError("the job did not fail")
        except Exception as error:
            assert "boatswain has ended the application, with exit code 3" in str(error), error
        say("the job has failed")


def run_beside(function, jar, directory, master):
    """Runs another application, in a process of its own: a process has one SparkContext."""
    command = [sys.executable, __file__, function.__name__, str(jar), str(directory)]
    subprocess.run(command, env={**os.environ, "BESIDE": master}, check=True, timeout=180)


def beside(directory):
    """The folder and the settings of that application, which has one executor."""
    token = str(directory / "token")
    directory = directory / "beside"
    directory.mkdir()
    return directory, {"spark.executor.instances": "1", "spark.boatswain.tokenFile": token}


@scenario
def wrong_java(jar, directory):
    """Of two applications on one boatswain one has a wrong Java path: it ends, and says why; the other's result is right.

    Then executors of boatswain's own configuration fail too often. With it all ends, and the exception says that, too.
    """
    settings = [
        "failures.max = 1",
        'profiles.broken = { executors = 0, command = ["/bin/sh", "-c", "echo there is no such database; exit 5"] }',
    ]
    with boatswain(directory, settings=settings) as driver:
        master = f"spark+boatswain://{driver.address}"
        try:
            with spark(jar, directory, master, on=driver, conf={"spark.executor.instances": "2"}) as sc:
                until("two are registered", lambda: registered(sc) == 2)
                run_beside(wrong_java_beside_it, jar, directory, master)
                equal(dict(word_count(sc, 8, 0).collect()), COUNTS)
                assert registered(sc) == 2, "the healthy executors stay"

                def fail():
                    until("the job runs", lambda: tasks_done(sc, 1))
                    driver.call("PUT", "/v1/targets", {"targets": {"broken": 2}})

                during(fail, word_count(sc, 64, 1).collect)
                raise AssertionError("the job did not fail")
        except Exception as error:
            why = str(error)
            assert "boatswain has ended the application, with exit code 11: profile broken: 2 failures" in why, why
            # How many of how many: one that was replaced may have ended meanwhile.
            assert re.search(r"; \d of the last \d.*: Exited: ended with exit 5.*there is no such database", why), why
        say("the job has failed")


def wrong_java_beside_it(jar, directory):
    """The application with the wrong Java path."""
    directory, conf = beside(directory)
    conf |= {
        "spark.boatswain.executor.java": "/opt/nojava/bin/java",
    }
    try:
        with spark(jar, directory, os.environ["BESIDE"], conf=conf) as sc:
            word_count(sc, 4, 0).collect()
            raise AssertionError("the application did not fail")
    except Exception as error:
        why = str(error)
        assert "fail too often, and boatswain requests no more" in why and "exit 127" in why, why
        assert "/opt/nojava/bin/java" in why, why
    say("the application has failed, and says why")


BY_NAME[wrong_java_beside_it.__name__] = wrong_java_beside_it


@scenario
def killed_beside(jar, directory):
    """Of two applications on one boatswain one is killed: boatswain removes its profile, and the other's executors stay."""
    with boatswain(directory) as driver:
        master = f"spark+boatswain://{driver.address}"
        with spark(jar, directory, master, on=driver, conf={"spark.executor.instances": "2"}) as sc:
            until("two are registered", lambda: registered(sc) == 2)
            before = executor_pids(sc)
            run_beside(killed_beside_it, jar, directory, master)
            until("only the healthy one's executors are left", lambda: len(driver.executors()) == 2)
            until("its profile is removed", lambda: len(driver.call("GET", "/v1/status")["profiles"]) == 2)
            equal(dict(word_count(sc, 8, 0).collect()), COUNTS)
            equal(executor_pids(sc), before)


def killed_beside_it(jar, directory):
    """The application that is killed."""
    directory, conf = beside(directory)
    conf |= {
        "spark.boatswain.callEvery": "1s",
    }
    with spark(jar, directory, os.environ["BESIDE"], conf=conf) as sc:
        until("one is registered", lambda: registered(sc) == 1)
        os.kill(sc._jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)
        os._exit(0)


BY_NAME[killed_beside_it.__name__] = killed_beside_it


@scenario
def killed_jvm(jar, directory):
    """The local boatswain ends by itself, with its executors, after the JVM was killed."""
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import harness\n"
        "with harness.spark(sys.argv[2], sys.argv[3], 'local[1]', conf={'spark.master': 'spark+boatswain://local',"
        " 'spark.executor.instances': '1', 'spark.boatswain.local.ttl': '3s', 'spark.boatswain.callEvery': '1s'}) as sc:\n"
        "    harness.until('one is registered', lambda: harness.registered(sc) == 1)\n"
        "    pid = sc._jvm.java.lang.ProcessHandle.current().pid()\n"
        "    import os; os.kill(pid, 9); os._exit(0)\n"
    )
    here = str(pathlib.Path(__file__).parent)
    subprocess.run([sys.executable, "-c", program, here, str(jar), str(directory)], check=True, timeout=120)

    def left():
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if str(directory).encode() in (entry / "environ").read_bytes() and int(entry.name) != os.getpid():
                    found.append(entry.name)
            except (OSError, ValueError):
                continue
        return found

    until("nothing is left", lambda: not left(), 40)


def sql_with_a_killer(jar, directory):
    """Twenty runs of four queries while executors are killed at random: all results equal those of an undisturbed run."""
    settings = ["failures = { max = 10000, stable_after = \"1s\", backoff_max = \"1s\" }"]
    conf = {
        "spark.executor.instances": "4",
        "spark.task.maxFailures": "100",
        "spark.stage.maxConsecutiveAttempts": "100",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
    }
    seed = int(os.environ.get("SEED", "1"))
    with boatswain(directory, settings=settings) as driver:
        with spark(jar, directory, f"spark+boatswain://{driver.address}", on=driver, conf=conf) as sc:
            session = sql.session(sc)
            wanted = sql.run(session)
            killed = []
            stopped = threading.Event()
            killer = threading.Thread(target=sql.kill_at_random, args=(sc, random.Random(seed), stopped, killed), daemon=True)
            killer.start()
            for number in range(1, 21):
                before = len(killed)
                equal(sql.run(session), wanted)
                say(f"run {number}: equal, {len(killed) - before} killed meanwhile")
            stopped.set()
            killer.join(30)
            assert len(killed) >= 10, f"only {len(killed)} were killed"


BY_NAME["sql_with_a_killer"] = sql_with_a_killer


if __name__ == "__main__":
    name, jar, directory = sys.argv[1:]
    chosen = (ALL | BY_NAME)[name]
    say(chosen.__doc__, f"({BOATSWAIN})")
    chosen(pathlib.Path(jar), pathlib.Path(directory))
    say("done")
